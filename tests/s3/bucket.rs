//! An S3 server on loopback over a folder: s3s, which checks the signature of each request.

use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// The server and its one bucket, `runs`.
pub struct Bucket {
    root: TempDir,
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Bucket {
    /// The key and the secret that the server accepts.
    pub const KEY: (&str, &str) = ("tidemark", "the secret of this test");

    pub fn start() -> Bucket {
        let root = TempDir::with_prefix("tidemark-s3-").unwrap();
        std::fs::create_dir(root.path().join("runs")).unwrap();
        let mut bucket = Bucket {
            root,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            runtime: None,
        };
        bucket.serve();
        bucket
    }

    /// Starts to answer; after [`Bucket::stop`] at the same address as before.
    pub fn serve(&mut self) {
        let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(self.root.path()).unwrap());
        let (key, secret) = Bucket::KEY;
        service.set_auth(SimpleAuth::from_single(key, secret));
        let service = service.build();
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind(self.address)).unwrap();
        self.address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let stream = hyper_util::rt::TokioIo::new(stream);
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(stream, service.clone()));
            }
        });
        self.runtime = Some(runtime);
    }

    /// Stops the server: connections are refused.
    pub fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Files of the objects whose keys begin with `prefix`, without the server's own files.
    pub fn objects(&self, prefix: &str) -> Vec<PathBuf> {
        let mut found = files_in(&self.root.path().join("runs").join(prefix));
        found.sort();
        found
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.stop();
    }
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files_in(&path)),
            path => found.push(path),
        }
    }
    found
}
