-- Causes for which Redis has settings.
SELECT kind, finding FROM program_advice WHERE kind = 'redis' ORDER BY finding
