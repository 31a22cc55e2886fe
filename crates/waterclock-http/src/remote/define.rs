//! Policies of a server that are defined by its clients.

use http::{Method, StatusCode};
use hyper_util::client::legacy::connect::Connect;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use waterclock::StoreError;

use super::RemoteStore;
use super::request::Call;

impl<C: Connect + Clone + Send + Sync + 'static> RemoteStore<C> {
    /// Sets a policy on the server, in JSON as its configuration file would have it: for programs whose limits are in
    /// their code. The same policy again changes nothing; another one keeps what was spent. The token needs the role
    /// `admin`.
    ///
    /// ```no_run
    /// # async fn example(store: waterclock_http::RemoteStore) -> Result<(), waterclock::StoreError> {
    /// use waterclock::Store;
    ///
    /// store.define_policy("notes", r#"{"limits": ["300/h"], "headers": "ietf"}"#).await?;
    /// assert!(store.check("notes", "alice").await?.is_allowed());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] with the server's sentence if the policy is wrong, or if the server's file has one of this
    /// name, which wins.
    pub async fn define_policy(&self, name: &str, policy: &str) -> Result<(), StoreError> {
        self.change_policy(Method::PUT, name, policy).await
    }

    /// Deletes a policy that was defined. The token needs the role `admin`.
    pub async fn delete_policy(&self, name: &str) -> Result<(), StoreError> {
        self.change_policy(Method::DELETE, name, "").await
    }

    async fn change_policy(
        &self,
        method: Method,
        name: &str,
        body: &str,
    ) -> Result<(), StoreError> {
        let path = format!("/v1/policies/{}", utf8_percent_encode(name, NON_ALPHANUMERIC));
        let call = Call { method, path, body: body.as_bytes().to_vec() };
        let server = self.store.store();
        let reply = server.ask(call).await?;
        match reply.status {
            StatusCode::OK | StatusCode::CREATED => self.refresh().await,
            StatusCode::CONFLICT | StatusCode::NOT_FOUND | StatusCode::INSUFFICIENT_STORAGE => {
                Err(reply.rejection(&server.base))
            }
            _ => Err(reply.error(&server.base, &[])),
        }
    }
}
