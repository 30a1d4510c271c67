-- A machine is its own host; the client's place is unknown, so it stands where it was seen. osd.1's first row holds until
-- it fails at 2,500.
SELECT ts, until_ts, member, role, host, rack, state, detail FROM member_state ORDER BY member, ts
