"""Questions about requests: `path`, `graph` and `demand`. What they are made of: docs/requests.md."""
