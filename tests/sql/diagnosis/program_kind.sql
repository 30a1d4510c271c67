-- Known by its name; no ranks, no files of a library.
SELECT * FROM program_kind
