//! What users see and what needs the whole cluster: CRDs, cluster roles, the namespace `default`.

mod book;
mod create_role;
