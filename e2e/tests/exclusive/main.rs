//! What users see and what needs the whole cluster: CRDs, cluster roles, the namespace `default`.

mod api_server_restarted;
mod article;
mod book;
mod control_plane_away;
mod installed;
mod leadership;
mod node_lost;
mod node_lost_at_birth;
mod nodes_drained;
mod one_file;
mod outlived;
mod reader;
mod scope;
mod wide;
