//! TALKING TO ETCD: users, roles, and whether anybody has to be one.

use crate::{
    error::{Call, Error},
    member::Member,
    rpc::{self, auth_client::AuthClient},
};

impl Member {
    /// Whether the cluster asks for a login. From 3.5 on.
    pub async fn auth_enabled(&self) -> Result<bool, Error> {
        self.call(Call::AuthStatus, rpc::Empty {}, async |channel, request| {
            AuthClient::new(channel).auth_status(request).await
        })
        .await
        .map(|answer| answer.enabled)
    }

    /// Makes everybody log in. There has to be a user `root` with the role `root`.
    pub async fn enable_auth(&self) -> Result<(), Error> {
        self.call(Call::EnableAuth, rpc::Empty {}, async |channel, request| {
            AuthClient::new(channel).auth_enable(request).await
        })
        .await
        .map(drop)
    }

    /// Lets everybody in again.
    pub async fn disable_auth(&self) -> Result<(), Error> {
        self.call(Call::DisableAuth, rpc::Empty {}, async |channel, request| {
            AuthClient::new(channel).auth_disable(request).await
        })
        .await
        .map(drop)
    }

    /// Adds a user with a password.
    pub async fn add_user(&self, name: &str, password: &str) -> Result<(), Error> {
        let message = rpc::UserAddRequest { name: name.to_owned(), password: password.to_owned() };
        self.call(Call::AddUser, message, async |channel, request| {
            AuthClient::new(channel).user_add(request).await
        })
        .await
        .map(drop)
    }

    /// Adds a role without rights.
    pub async fn add_role(&self, name: &str) -> Result<(), Error> {
        let message = rpc::RoleAddRequest { name: name.to_owned() };
        self.call(Call::AddRole, message, async |channel, request| {
            AuthClient::new(channel).role_add(request).await
        })
        .await
        .map(drop)
    }

    /// Gives a user a role.
    pub async fn grant_role(&self, user: &str, role: &str) -> Result<(), Error> {
        let message = rpc::UserGrantRoleRequest { user: user.to_owned(), role: role.to_owned() };
        self.call(Call::GrantRole, message, async |channel, request| {
            AuthClient::new(channel).user_grant_role(request).await
        })
        .await
        .map(drop)
    }
}
