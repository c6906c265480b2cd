//! Listens for connections, with their limits and timeouts, until the server stops.

use super::connections::{Connections, Counted, Seat};
use super::socket::Socket;
use crate::app::App;
use crate::limits::clients::numbers::Share;
use crate::limits::clients::{ClientAddress, Peer, Refusal};
use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

/// A client that needs longer to send its headers is dropped.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);

/// When the server is asked to stop, running requests have this long.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// Files that the server needs besides connections: the database, blobs, pipes of children.
const OTHER_FILES: u64 = 128;

/// With fewer connections no page could be shown.
const LEAST_CONNECTIONS: u64 = 16;

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
    /// When the address is taken or not this machine's, or the system allows too few open files for
    /// any connection.
    pub async fn on(address: SocketAddr) -> std::io::Result<Listening> {
        let (files, least) = (open_files(), OTHER_FILES + LEAST_CONNECTIONS);
        if files.is_some_and(|files| files < least) {
            return Err(std::io::Error::other(format!(
                "the system allows {} open files, and {least} are needed: `ulimit -n 1024` before \
                 the server starts, or LimitNOFILE=1024 in its systemd unit",
                files.unwrap_or_default()
            )));
        }
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Listening { listener, address })
    }
}

/// Serves these routes until `app.stopping` fires.
pub async fn serve(listening: Listening, app: Arc<App>, service: Router) {
    let connections = Connections::new(within_files(app.config.clients.connections));
    let watching = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listening.listener.accept() => accepted,
            () = app.stopping.cancelled() => break,
        };
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Probably there are no file descriptors left: wait for connections to close.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // A proxy has many clients behind it, and limits their connections itself.
        let who = match app.config.proxies.has(remote.ip()) {
            true => ClientAddress::HERE,
            false => remote.ip().into(),
        };
        match connections.enter(who) {
            Ok(seat) => begin(stream, remote, seat, &service, &app, &watching),
            Err(refusal) => refuse(&stream, &refusal),
        }
    }
    drop(listening);
    if tokio::time::timeout(STOP_WITHIN, watching.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("stopped with requests under way");
    }
}

fn begin(
    stream: TcpStream,
    remote: SocketAddr,
    seat: Seat,
    service: &Router,
    app: &App,
    watching: &GracefulShutdown,
) {
    quick(&stream);
    let local = stream.local_addr().unwrap_or(app.config.listen);
    let peer = Peer { remote, local };
    let told = service
        .clone()
        .map_request(move |request: Request<Incoming>| {
            let mut request = request.map(axum::body::Body::new);
            request.extensions_mut().insert(peer);
            request
        });
    let counted = Counted::new(told, seat.clone());
    let socket = Socket::new(stream, app.config.clients.pace);
    let connection = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .serve_connection(TokioIo::new(socket), TowerToHyperService::new(counted));
    let connection = watching.watch(connection);
    tokio::spawn(async move {
        let ended = tokio::select! {
            ended = connection => ended,
            () = seat.closed() => return tracing::debug!("an idle connection made room"),
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended");
        }
    });
}

/// Says why on a connection that is closed at once, without reading from it or waiting for
/// anything.
fn refuse(stream: &TcpStream, refusal: &Refusal) {
    let answer = crate::problems::refused_connection(refusal);
    // If the client does not even receive this, it sees the closed connection.
    let _ = stream.try_write(answer.as_bytes());
}

/// How many files this process may open, after asking the system for the highest limit; `None`: any
/// number.
fn open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

/// As many connections as there are files for this process.
fn within_files(wanted: Share) -> Share {
    let room = open_files().map_or(usize::MAX, |files| {
        usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX)
    });
    if room < wanted.all {
        tracing::warn!(
            room,
            "the system allows fewer open files than connections are wanted"
        );
    }
    Share {
        each: wanted.each.min(room),
        all: wanted.all.min(room),
    }
}

/// Answers are small and are sent in one piece, so there is no reason to wait for more.
fn quick(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
}
