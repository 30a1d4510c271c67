//! What the agent can tell about: one file or folder a storage system.
