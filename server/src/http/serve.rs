//! Listening: connections, their timeouts, and stopping.

use super::router;
use crate::app::App;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// A client that takes longer to send its headers is not a client.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);

/// Requests under way when the server is asked to stop have this long.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// A bound socket.
pub struct Listening {
    listener: TcpListener,
    /// Where.
    pub address: SocketAddr,
}

impl Listening {
    /// Binds.
    ///
    /// # Errors
    /// When the address is taken or not this machine's.
    pub async fn on(address: SocketAddr) -> std::io::Result<Listening> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Listening { listener, address })
    }
}

/// Serves until `app.stopping` fires.
pub async fn serve(listening: Listening, app: Arc<App>) {
    let service = TowerToHyperService::new(router(Arc::clone(&app)));
    let mut builder = Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN);
    let connections = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listening.listener.accept() => accepted,
            () = app.stopping.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: wait for connections to close.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        quick(&stream);
        let connection = builder.serve_connection(TokioIo::new(stream), service.clone());
        let connection = connections.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection ended");
            }
        });
    }
    drop(listening);
    if tokio::time::timeout(STOP_WITHIN, connections.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("stopped with requests under way");
    }
}

/// Answers are small and come in one piece: do not wait for more.
fn quick(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
}
