//! Counts open connections, per address and in all. If there are too many, an idle one is closed:
//! of the address with the most connections, the one that has been idle longest.

use crate::limits::clients::numbers::Share;
use crate::limits::clients::quota::Crowd;
use crate::limits::clients::{ClientAddress, Refusal};
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tower::Service;

/// When a refused client may come again.
const RETRY: Duration = Duration::from_secs(5);

/// Open connections. Cloning shares them.
#[derive(Clone)]
pub struct Connections {
    most: Share,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    /// A counter that grows with every event, to order them.
    clock: u64,
    seats: HashMap<u64, State>,
    of: HashMap<ClientAddress, usize>,
}

struct State {
    who: ClientAddress,
    /// Requests whose answers are not completely sent.
    busy: usize,
    idle_since: u64,
    close: CancellationToken,
}

/// A connection that is counted until the last copy of this is dropped.
#[derive(Clone)]
pub struct Seat {
    taken: Arc<Taken>,
}

struct Taken {
    open: Arc<Mutex<Open>>,
    id: u64,
    close: CancellationToken,
}

impl Connections {
    /// With these limits.
    pub fn new(most: Share) -> Connections {
        Connections {
            most,
            open: Arc::default(),
        }
    }

    /// Counts a connection of this client.
    ///
    /// # Errors
    /// When there are too many, and all of them are busy.
    pub fn enter(&self, who: ClientAddress) -> Result<Seat, Refusal> {
        let mut open = lock(&self.open);
        let each = match who.is_local() {
            true => self.most.all,
            false => self.most.each,
        };
        if each < self.most.all && open.of.get(&who).copied().unwrap_or(0) >= each {
            let made_room = open.close_idle_of(who);
            made_room.ok_or_else(|| refusal(Crowd::Client, each))?;
        }
        if open.seats.len() >= self.most.all {
            let made_room = open.close_idle();
            made_room.ok_or_else(|| refusal(Crowd::Everybody, self.most.all))?;
        }
        let close = CancellationToken::new();
        let id = open.tick();
        let state = State {
            who,
            busy: 0,
            idle_since: id,
            close: close.clone(),
        };
        open.seats.insert(id, state);
        *open.of.entry(who).or_insert(0) += 1;
        drop(open);
        let taken = Taken {
            open: Arc::clone(&self.open),
            id,
            close,
        };
        Ok(Seat {
            taken: Arc::new(taken),
        })
    }
}

fn refusal(crowd: Crowd, most: usize) -> Refusal {
    let why = match crowd {
        Crowd::Client => format!("one address may have {most} connections at a time"),
        Crowd::Everybody => format!("all {most} connections are in use"),
    };
    Refusal {
        crowd,
        why,
        retry: RETRY,
    }
}

impl Open {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Closes an idle connection of the address with the most connections.
    fn close_idle(&mut self) -> Option<()> {
        let idle = self.seats.values().filter(|seat| seat.busy == 0);
        let heaviest = idle.max_by_key(|seat| self.of.get(&seat.who))?.who;
        self.close_idle_of(heaviest)
    }

    fn close_idle_of(&mut self, who: ClientAddress) -> Option<()> {
        let seats = self.seats.iter();
        let idle = seats.filter(|(_, seat)| seat.who == who && seat.busy == 0);
        let (&id, _) = idle.min_by_key(|(_, seat)| seat.idle_since)?;
        self.leave(id);
        Some(())
    }

    fn leave(&mut self, id: u64) {
        let Some(seat) = self.seats.remove(&id) else {
            return;
        };
        seat.close.cancel();
        let Some(left) = self.of.get_mut(&seat.who) else {
            return;
        };
        *left -= 1;
        if *left == 0 {
            self.of.remove(&seat.who);
        }
    }

    fn begin(&mut self, id: u64) {
        if let Some(seat) = self.seats.get_mut(&id) {
            seat.busy += 1;
        }
    }

    fn end(&mut self, id: u64) {
        let now = self.tick();
        if let Some(seat) = self.seats.get_mut(&id) {
            seat.busy = seat.busy.saturating_sub(1);
            seat.idle_since = now;
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        lock(&self.open).leave(self.id);
    }
}

impl Seat {
    /// Completes when the connection must close to make room.
    pub async fn closed(&self) {
        self.taken.close.cancelled().await;
    }

    fn request(&self) -> Busy {
        lock(&self.taken.open).begin(self.taken.id);
        Busy { seat: self.clone() }
    }
}

/// A running request, until its answer is sent.
struct Busy {
    seat: Seat,
}

impl Drop for Busy {
    fn drop(&mut self) {
        let taken = &self.seat.taken;
        lock(&taken.open).end(taken.id);
    }
}

/// Counts the requests of a connection.
#[derive(Clone)]
pub struct Counted<S> {
    service: S,
    seat: Seat,
}

impl<S> Counted<S> {
    /// The service of one connection.
    pub fn new(service: S, seat: Seat) -> Counted<S> {
        Counted { service, seat }
    }
}

impl<S, B> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response>,
    S::Future: Send + 'static,
{
    type Response = hyper::Response<CountedBody>;
    type Error = S::Error;
    type Future =
        Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send + 'static>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let busy = self.seat.request();
        let answer = self.service.call(request);
        Box::pin(async move {
            let response = answer.await?;
            Ok(response.map(|body| CountedBody { body, _busy: busy }))
        })
    }
}

/// An answer on its way.
pub struct CountedBody {
    body: axum::body::Body,
    _busy: Busy,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn client(text: &str) -> ClientAddress {
        text.parse::<IpAddr>().unwrap().into()
    }

    fn is_closed(seat: &Seat) -> bool {
        seat.taken.close.is_cancelled()
    }

    #[test]
    fn whoever_has_most_makes_room_first() {
        let connections = Connections::new(Share { each: 3, all: 4 });
        let (rude, honest) = (client("10.0.0.1"), client("10.0.0.2"));
        let quiet = connections.enter(honest).unwrap();
        let seats: Vec<Seat> = (0..3).map(|_| connections.enter(rude).unwrap()).collect();
        // The oldest idle connection of the same client is closed for the next one.
        let _next = connections.enter(rude).unwrap();
        assert_eq!(
            seats.iter().map(is_closed).collect::<Vec<_>>(),
            [true, false, false]
        );
        let _more = connections.enter(honest).unwrap();
        assert!(is_closed(&seats[1]) && !is_closed(&quiet));
    }

    #[test]
    fn whatever_is_busy_stays_and_the_next_is_refused() {
        let connections = Connections::new(Share { each: 2, all: 3 });
        let (rude, other) = (client("10.0.0.1"), client("10.0.0.2"));
        let seats: Vec<Seat> = (0..2).map(|_| connections.enter(rude).unwrap()).collect();
        let mut busy: Vec<Busy> = seats.iter().map(Seat::request).collect();
        let refused = connections.enter(rude).map(drop).unwrap_err();
        assert_eq!(refused.crowd, Crowd::Client);
        let third = connections.enter(other).unwrap();
        let busy_too = third.request();
        let refused = connections.enter(other).map(drop).unwrap_err();
        assert_eq!(refused.crowd, Crowd::Everybody);
        drop(busy.pop());
        assert!(connections.enter(other).is_ok());
        assert!(is_closed(&seats[1]) && !is_closed(&seats[0]));
        drop((busy, busy_too));
    }

    #[test]
    fn a_seat_is_free_again_when_its_connection_has_gone() {
        let connections = Connections::new(Share { each: 1, all: 1 });
        let who = client("10.0.0.1");
        let seat = connections.enter(who).unwrap();
        let busy = seat.request();
        drop(seat);
        assert!(connections.enter(who).is_err(), "the answer is on its way");
        drop(busy);
        assert!(connections.enter(who).is_ok());
        assert!(lock(&connections.open).of.is_empty());
    }
}
