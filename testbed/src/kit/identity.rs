//! Being somebody else: the same cluster, seen by a service account, by another user or by nobody.

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, api::PostParams, config::AuthInfo};
use serde_json::{Value, json};

use super::{Cluster, KitError, TestNamespace, call};

impl Cluster {
    /// A client of the same cluster, for whoever this bearer token belongs to.
    ///
    /// A client and not a [`Cluster`]: kubectl would go on with the kubeconfig, and be somebody else.
    pub fn as_bearer(&self, token: &str) -> Result<Client, KitError> {
        self.as_other(json!({ "token": token }))
    }

    /// A client of the same cluster, without credentials.
    pub fn as_nobody(&self) -> Result<Client, KitError> {
        self.as_other(json!({}))
    }

    fn as_other(&self, credentials: Value) -> Result<Client, KitError> {
        let auth_info: AuthInfo = serde_json::from_value(credentials).map_err(KitError::Credentials)?;
        let mut config = self.config.clone();
        config.auth_info = auth_info;
        Ok(Self::with_config(config, self.places.clone())?.client)
    }
}

impl TestNamespace {
    /// A client for a service account of this namespace, with a real token of ten minutes.
    pub async fn as_service_account(&self, name: &str) -> Result<Client, KitError> {
        let accounts: Api<ServiceAccount> = self.api();
        let wanted = TokenRequest {
            spec: TokenRequestSpec { expiration_seconds: Some(600), ..TokenRequestSpec::default() },
            ..TokenRequest::default()
        };
        let attempt = format!("request a token for the service account {name} of {}", self.name());
        let answer =
            call(&attempt, accounts.create_token_request(name, &PostParams::default(), &wanted)).await?;
        self.cluster().as_bearer(&answer.status.map(|status| status.token).unwrap_or_default())
    }
}
