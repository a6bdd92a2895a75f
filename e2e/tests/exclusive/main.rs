//! What users see and what needs the whole cluster: CRDs, cluster roles, the namespace `default`.

mod article;
mod book;
mod installed;
mod reader;
