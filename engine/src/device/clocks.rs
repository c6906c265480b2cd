//! The clocks of the simulated device, and what a step did to them.
//!
//! Every stream has a clock, which moves only for its own work and for the events that it waits
//! for. The host has a clock too, which moves for launches and synchronisation, and where the queue
//! of a stream is full. If a step repeats, it does the same to the clocks again, so it can be
//! played from a [`Tape`]: the same sums in the same order, bit for bit. If the program asks for an
//! event, it acts on the answer, so the answer must be that of the tape.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{EventId, StreamId};

/// How many launches and copies of a stream can wait, with the one that runs. The next one holds
/// the host up until the first of them is done. CUDA documents no number; an H200 took 1,022
/// on each stream (docs/offloaders.md, "Assumptions").
const QUEUE: usize = 1024;

/// Something that moved a clock, or a question to one.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Move {
    /// Work on a stream.
    Enqueue(StreamId, f64),
    Record(StreamId, EventId),
    Wait(StreamId, EventId),
    Forget(EventId),
    /// The question whether the host has come past an event, and the answer.
    Asked(EventId, bool),
    Synchronize(StreamId),
    /// The host waited for an event.
    SynchronizeEvent(EventId),
    /// The host waited for all work.
    Idle,
}

/// What a step did to the clocks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tape {
    /// The first event that the step could make; earlier ones existed before.
    first_event: u64,
    moves: Vec<Move>,
}

/// The clock of a stream.
#[derive(Debug, Clone, Default, PartialEq)]
struct Stream {
    /// When all its work is done.
    at: f64,
    /// When its last works are done, one after another; at most [`QUEUE`] of them.
    queue: VecDeque<f64>,
}

/// All clocks, in seconds since the start.
#[derive(Debug, Clone)]
pub(super) struct Clocks {
    /// Host time that a launch takes.
    launch: f64,
    /// Minimum time of any work.
    floor: f64,
    streams: Vec<Stream>,
    host: f64,
    events: HashMap<EventId, f64>,
    next_event: u64,
    tape: Option<Tape>,
}

impl Clocks {
    pub fn new(launch: f64, floor: f64) -> Clocks {
        Clocks {
            launch,
            floor,
            streams: vec![Stream::default()],
            host: 0.0,
            events: HashMap::new(),
            next_event: 0,
            tape: None,
        }
    }

    fn note(&mut self, happened: Move) {
        if let Some(tape) = &mut self.tape {
            tape.moves.push(happened);
        }
    }

    fn stream(&mut self, stream: StreamId) -> &mut Stream {
        &mut self.streams[usize::from(stream.0)]
    }

    /// A new stream, whose clock starts at the host's time.
    pub fn add_stream(&mut self) -> usize {
        self.streams.push(Stream {
            at: self.host,
            queue: VecDeque::new(),
        });
        self.streams.len() - 1
    }

    /// Work starts after the host has enqueued it and after the stream is free. The host enqueues
    /// it once the queue has room.
    pub fn enqueue(&mut self, stream: StreamId, seconds: f64) {
        self.note(Move::Enqueue(stream, seconds));
        let (launch, floor, mut host) = (self.launch, self.floor, self.host);
        let stream = self.stream(stream);
        if stream.queue.len() == QUEUE {
            let room = stream.queue.pop_front();
            host = room.map_or(host, |room| host.max(room));
        }
        host += launch;
        stream.at = stream.at.max(host) + seconds.max(floor);
        stream.queue.push_back(stream.at);
        self.host = host;
    }

    pub fn record(&mut self, stream: StreamId) -> EventId {
        let id = EventId(self.next_event);
        self.next_event += 1;
        self.note(Move::Record(stream, id));
        let at = self.stream(stream).at;
        self.events.insert(id, at);
        id
    }

    pub fn wait(&mut self, stream: StreamId, event: EventId) {
        self.note(Move::Wait(stream, event));
        let at = self.events.get(&event).copied().unwrap_or(0.0);
        let stream = self.stream(stream);
        stream.at = stream.at.max(at);
    }

    pub fn is_done(&mut self, event: EventId) -> bool {
        let done = self.events.get(&event).is_none_or(|&at| at <= self.host);
        self.note(Move::Asked(event, done));
        done
    }

    pub fn forget(&mut self, event: EventId) {
        self.note(Move::Forget(event));
        self.events.remove(&event);
    }

    pub fn synchronize(&mut self, stream: StreamId) {
        self.note(Move::Synchronize(stream));
        let at = self.stream(stream).at;
        self.host = self.host.max(at);
    }

    /// The host waits until the work before the event is done.
    pub fn synchronize_event(&mut self, event: EventId) {
        self.note(Move::SynchronizeEvent(event));
        let at = self.events.get(&event).copied().unwrap_or(0.0);
        self.host = self.host.max(at);
    }

    /// The host waits for all work.
    pub fn idle(&mut self) {
        self.note(Move::Idle);
        self.host = self.busy_until();
    }

    pub fn busy_until(&self) -> f64 {
        let busy = self.streams.iter().map(|stream| stream.at);
        busy.fold(self.host, f64::max)
    }

    pub fn host(&self) -> f64 {
        self.host
    }

    /// Writes down what moves the clocks from now on.
    pub fn start_tape(&mut self) {
        self.tape = Some(Tape {
            first_event: self.next_event,
            moves: Vec::new(),
        });
    }

    pub fn take_tape(&mut self) -> Option<Tape> {
        self.tape.take()
    }
}

/// A step on tape, with the events that the program held before and after the step, each list in a
/// fixed order.
#[derive(Debug, Clone)]
pub struct Taped {
    /// What it did to the clocks.
    pub tape: Tape,
    /// Events held when it began.
    pub began: Vec<EventId>,
    /// Events held when it ended.
    pub ended: Vec<EventId>,
}

/// Steps that are played one after another, again and again.
#[derive(Debug)]
pub struct Player {
    cycle: Vec<Taped>,
    /// The events that now stand for those held at the end of the cycle.
    now: Vec<EventId>,
    clocks: Clocks,
}

impl Player {
    /// Continues from the present state of the clocks, which is the end of the last step of the
    /// cycle.
    pub(super) fn new(cycle: Vec<Taped>, clocks: &Clocks) -> Player {
        let ended = cycle.last().map(|last| last.ended.clone());
        Player {
            cycle,
            now: ended.unwrap_or_default(),
            clocks: clocks.clone(),
        }
    }

    /// Plays the first `steps` of the cycle again; returns when the work of each step is done. If
    /// an event is done that was not done on the tape, or the other way round, the program would
    /// act differently: then the answer is `None`, and nothing has changed.
    pub fn play(&mut self, steps: usize) -> Option<Vec<f64>> {
        let (mut clocks, mut now) = (self.clocks.clone(), self.now.clone());
        let mut ends = Vec::with_capacity(steps);
        for taped in self.cycle.iter().take(steps) {
            now = taped.play(&mut clocks, &now)?;
            ends.push(clocks.busy_until());
        }
        (self.clocks, self.now) = (clocks, now);
        Some(ends)
    }

    /// Sets the clocks to the end of a whole cycle, and gives the events the names that the program
    /// knows.
    pub(super) fn finish(self, clocks: &mut Clocks) {
        clocks.streams = self.clocks.streams;
        clocks.host = self.clocks.host;
        clocks.next_event = self.clocks.next_event;
        let known = self.cycle.last().map_or(&[][..], |last| &last.ended);
        for (event, now) in known.iter().zip(&self.now) {
            if let Some(&time) = self.clocks.events.get(now) {
                clocks.events.insert(*event, time);
            }
        }
    }
}

impl Taped {
    /// Plays the step. `held` are the events that now stand for those that it began with; returns
    /// the ones for those that it ended with.
    fn play(&self, clocks: &mut Clocks, held: &[EventId]) -> Option<Vec<EventId>> {
        let made = clocks.next_event;
        let known: HashMap<EventId, EventId> = self
            .began
            .iter()
            .copied()
            .zip(held.iter().copied())
            .collect();
        let name = |event: EventId| match event.0.checked_sub(self.tape.first_event) {
            Some(later) => Some(EventId(made + later)),
            None => known.get(&event).copied(),
        };
        for &happened in &self.tape.moves {
            match happened {
                Move::Enqueue(stream, seconds) => clocks.enqueue(stream, seconds),
                Move::Record(stream, _) => {
                    clocks.record(stream);
                }
                Move::Wait(stream, event) => clocks.wait(stream, name(event)?),
                Move::Asked(event, answer) => {
                    if clocks.is_done(name(event)?) != answer {
                        return None;
                    }
                }
                // If nothing asks for an event any more, its name is not known.
                Move::Forget(event) => name(event).into_iter().for_each(|name| clocks.forget(name)),
                Move::Synchronize(stream) => clocks.synchronize(stream),
                Move::SynchronizeEvent(event) => clocks.synchronize_event(name(event)?),
                Move::Idle => clocks.idle(),
            }
        }
        let ended: Option<Vec<EventId>> = self.ended.iter().map(|&event| name(event)).collect();
        let ended = ended?;
        let still: HashSet<EventId> = ended.iter().copied().collect();
        clocks.events.retain(|event, _| still.contains(event));
        Some(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDE: StreamId = StreamId(1);

    impl Tape {
        /// How often it was asked whether the host has come past an event.
        pub(crate) fn questions(&self) -> usize {
            let asked = |happened: &&Move| matches!(happened, Move::Asked(..));
            self.moves.iter().filter(asked).count()
        }
    }

    /// A launch takes 1 second, and work on the side stream 10. The host goes on until the stream
    /// holds as much work as its queue; another stream has its own.
    #[test]
    fn a_full_queue_holds_the_host_up() {
        let mut clocks = Clocks::new(1.0, 0.0);
        clocks.add_stream();
        let host_after = |clocks: &mut Clocks, stream, launches| {
            (0..launches).for_each(|_| clocks.enqueue(stream, 10.0));
            clocks.host()
        };
        let full = QUEUE as f64;
        assert_eq!(host_after(&mut clocks, SIDE, QUEUE), full);
        // The first work has been done for long.
        assert_eq!(host_after(&mut clocks, SIDE, 1), full + 1.0);
        let later = host_after(&mut clocks, SIDE, 3 * QUEUE);
        // The last launch waited for the work that is as many launches before it as the queue has.
        let room = 1.0 + 10.0 * (3.0 * full + 1.0);
        assert_eq!(later, room + 1.0);
        assert_eq!(host_after(&mut clocks, StreamId::DEFAULT, 5), later + 5.0);
    }

    /// A step on two streams: it asks whether the last step's work on the side stream is done, and
    /// launches work on both.
    fn step(clocks: &mut Clocks, held: &mut Vec<EventId>) -> bool {
        let done = held.drain(..).all(|event| clocks.is_done(event));
        clocks.enqueue(SIDE, 0.9);
        clocks.enqueue(StreamId::DEFAULT, 0.1);
        held.push(clocks.record(SIDE));
        done
    }

    /// The side stream is 30 seconds behind, and the host catches up by 1.1 in each step. The
    /// played steps equal the computed ones until the host has come past the event.
    #[test]
    fn a_step_is_played_until_it_goes_another_way() {
        let mut clocks = Clocks::new(1.0, 0.0);
        clocks.add_stream();
        let mut held = Vec::new();
        clocks.enqueue(SIDE, 30.0);
        step(&mut clocks, &mut held);
        let began = held.clone();
        clocks.start_tape();
        let done = step(&mut clocks, &mut held);
        let taped = Taped {
            tape: clocks.take_tape().unwrap(),
            began,
            ended: held.clone(),
        };
        let mut player = Player::new(vec![taped], &clocks);
        let mut computed = clocks.clone();
        let mut played = 0;
        while let Some(ends) = player.play(1) {
            assert_eq!(step(&mut computed, &mut held), done);
            assert_eq!(ends, [computed.busy_until()]);
            played += 1;
        }
        assert!(played > 10, "{played}");
        assert_ne!(step(&mut computed.clone(), &mut held.clone()), done);
        player.finish(&mut clocks);
        assert_eq!(
            (clocks.streams, clocks.host),
            (computed.streams, computed.host)
        );
    }
}
