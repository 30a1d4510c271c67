SELECT kind, amount, processes, detail FROM loss ORDER BY amount DESC
