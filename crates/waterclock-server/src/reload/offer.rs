//! A configuration is put in force whole or not at all.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use super::files::{Contents, Files};
use super::said::Came;
use waterclock_config::{Config, Invalid};

use super::restart::RestartSettings;
use crate::observe::Face;
use crate::server::{Identity, Server};
use crate::tls::Certificates;

/// What a configuration is offered to.
pub(crate) struct InForce {
    pub(crate) server: Arc<Server>,
    pub(crate) certificates: Certificates,
    /// Where the faces really listen, whatever a newer file says.
    pub(crate) bound: Vec<(Face, SocketAddr)>,
    /// What only a restart changes.
    pub(crate) standing: RestartSettings,
}

impl InForce {
    /// Offers the file. Also the files it is made of, if it says, and what stood in them.
    pub(super) async fn offer(&self, path: &Path) -> (Came, Option<(Files, Contents)>) {
        let config = match read(path) {
            Ok(config) => config,
            Err(invalid) => return (Err(invalid), None),
        };
        let files = Files::of(&config);
        let contents = files.contents_before_use(&config);
        (self.adopt(&config).await, Some((files, contents)))
    }

    /// Everything that can fail comes before anything that is seen.
    async fn adopt(&self, config: &Config) -> Came {
        for (face, address) in &self.bound {
            config.server.may_listen(&format!("`{}`", face.name()), *address)?;
        }
        let identity = Identity::new(config)?;
        let renewed = self.certificates.prepare(config)?;
        self.server.engine.reload(config).await?;
        self.server.believe(identity);
        self.certificates.renew(renewed);
        Ok(self.standing.differs_from(config))
    }
}

/// A file that is being written may be empty for a moment. That is no reason to forget everything.
fn read(path: &Path) -> Result<Config, Invalid> {
    let config = Config::load(Some(path))?;
    if config.is_blank {
        let name = path.display();
        return Err(format!("{name}: is empty; to serve no policies, write a comment").into());
    }
    Ok(config)
}
