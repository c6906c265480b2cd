//! A connection whose client must receive data fast enough. One that reads too slowly is dropped,
//! together with the work for it.

use crate::limits::clients::Pace;
use crate::limits::clients::pace::Watch;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream, watched while it cannot be written to.
pub struct Socket<S> {
    stream: S,
    watch: Watch,
    blocked: Option<Blocked>,
}

/// Since when the client has received nothing, and when it is judged.
struct Blocked {
    since: Instant,
    until: Pin<Box<Sleep>>,
}

impl<S: AsyncWrite + Unpin> Socket<S> {
    /// A stream whose client must keep this pace while there is data for it.
    pub fn new(stream: S, pace: Pace) -> Socket<S> {
        Socket {
            stream,
            watch: pace.watch(),
            blocked: None,
        }
    }

    /// Passes on the result of a write, and measures the time.
    fn written(
        &mut self,
        context: &mut Context<'_>,
        write: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match write {
            Poll::Ready(Ok(bytes)) => {
                self.watch.moved(bytes);
                if let Some(blocked) = self.blocked.take() {
                    self.judge(blocked.since.elapsed())?;
                }
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.wait(context),
        }
    }

    fn wait(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            let left = self.watch.left();
            let blocked = self.blocked.get_or_insert_with(|| Blocked {
                since: Instant::now(),
                until: Box::pin(tokio::time::sleep(left)),
            });
            ready!(blocked.until.as_mut().poll(context));
            let waited = blocked.since.elapsed().max(left);
            self.blocked = None;
            self.judge(waited)?;
        }
    }

    fn judge(&mut self, waited: std::time::Duration) -> io::Result<()> {
        let judged = self.watch.waited(waited);
        judged.map_err(|slow| io::Error::new(io::ErrorKind::TimedOut, slow))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.written(context, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use trace::units::Bytes;

    const PACE: Pace = Pace {
        rate: Bytes(100),
        over: Duration::from_secs(30),
    };

    /// Sends 64 KiB through a pipe of 1 KiB to a client that reads `piece` bytes every second.
    async fn send(piece: usize) -> (io::Result<()>, Duration) {
        let (server, mut client) = duplex(1024);
        let mut socket = Socket::new(server, PACE);
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; piece];
            while piece > 0 && client.read_exact(&mut buffer).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            // A client that reads nothing still keeps its end open.
            std::future::pending::<()>().await;
        });
        let began = Instant::now();
        let sent = socket.write_all(&vec![1; 64 << 10]).await;
        reading.abort();
        (sent, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_or_too_little_is_dropped() {
        for piece in [0, 1, 50] {
            let (sent, after) = send(piece).await;
            assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::TimedOut, "{piece}");
            // The first check may still count the bytes that filled the pipe.
            assert!(after <= 2 * PACE.over + Duration::from_secs(1), "{after:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_one_that_keeps_the_pace_gets_all_of_it() {
        let (sent, after) = send(150).await;
        sent.unwrap();
        assert!(after > 5 * PACE.over, "{after:?}");
    }
}
