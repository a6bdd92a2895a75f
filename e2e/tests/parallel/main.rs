//! What users see, each in a namespace of its own with an operator of its own.

mod created_again;
mod deletion;
mod fakes_tell_the_truth;
mod history;
mod interference;
mod launcher_refusal;
mod losses;
mod partitions;
mod permissions;
mod placement;
mod pod_security;
mod restored;
mod rules_on_the_server;
mod s05_members;
mod s06_describe;
mod s07_services;
mod s08_client;
mod s09_seed;
mod s10_control_loop;
mod s11_resize;
mod s12_s13_heal;
mod silent;
mod stuck;
mod truth;
mod versions_and_sizes;
mod walk;
