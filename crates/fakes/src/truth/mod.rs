//! FAKES: operations with their outcomes, which are the same on the fakes and on the real ones. Each table is run against both.

pub mod etcd;
pub mod kubernetes;
