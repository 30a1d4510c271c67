-- As the module says.
SELECT * FROM cause WHERE family = 'flush' ORDER BY finding
