//! What users see and what needs the whole cluster: CRDs, cluster roles, the namespace `default`.

mod api_server_restarted;
mod article;
mod book;
mod installed;
mod leadership;
mod node_lost_at_birth;
mod operator_killed;
mod reader;
mod scope;
