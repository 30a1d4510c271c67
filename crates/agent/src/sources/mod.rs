//! What the agent can tell about: one file or folder a storage system.

pub mod ceph;
pub mod machine;
pub mod nfs;
pub mod trails;
