//! The clocks of the simulated device, and a step as what it did to them.
//!
//! Every stream has a clock that only its own work and the events it waits for move; the host has
//! one that launches and synchronisation move. A step that repeats does the same to them again, so
//! it can be played from a [`Tape`]: the same sums in the same order, bit for bit. Where an event
//! is asked for, the answer must be that of the tape, because the program acts on it.

use std::collections::HashMap;

use super::{EventId, StreamId};

/// Something that moved a clock, or asked one.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Move {
    /// Work on a stream.
    Enqueue(StreamId, f64),
    Record(StreamId, EventId),
    Wait(StreamId, EventId),
    Forget(EventId),
    /// Whether the host has come past an event, and the answer.
    Asked(EventId, bool),
    Synchronize(StreamId),
    /// The host waited for all work.
    Idle,
}

/// What a step did to the clocks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tape {
    /// First event that the step could make: those before it were there already.
    first_event: u64,
    moves: Vec<Move>,
}

/// All clocks, in seconds since the start.
#[derive(Debug, Clone)]
pub(super) struct Clocks {
    /// What a launch takes of the host's time.
    launch: f64,
    /// What work takes at least.
    floor: f64,
    streams: Vec<f64>,
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
            streams: vec![0.0],
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

    fn stream(&mut self, stream: StreamId) -> &mut f64 {
        &mut self.streams[usize::from(stream.0)]
    }

    /// A new stream, which begins now.
    pub fn add_stream(&mut self) -> usize {
        self.streams.push(self.host);
        self.streams.len() - 1
    }

    /// Work cannot start before the host has enqueued it, nor before the stream is free.
    pub fn enqueue(&mut self, stream: StreamId, seconds: f64) {
        self.note(Move::Enqueue(stream, seconds));
        self.host += self.launch;
        let (host, floor) = (self.host, self.floor);
        let clock = self.stream(stream);
        *clock = clock.max(host) + seconds.max(floor);
    }

    pub fn record(&mut self, stream: StreamId) -> EventId {
        let id = EventId(self.next_event);
        self.next_event += 1;
        self.note(Move::Record(stream, id));
        let at = *self.stream(stream);
        self.events.insert(id, at);
        id
    }

    pub fn wait(&mut self, stream: StreamId, event: EventId) {
        self.note(Move::Wait(stream, event));
        let at = self.events.get(&event).copied().unwrap_or(0.0);
        let clock = self.stream(stream);
        *clock = clock.max(at);
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
        let at = *self.stream(stream);
        self.host = self.host.max(at);
    }

    /// The host waits for all work.
    pub fn idle(&mut self) {
        self.note(Move::Idle);
        self.host = self.busy_until();
    }

    pub fn busy_until(&self) -> f64 {
        self.streams.iter().copied().fold(self.host, f64::max)
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

/// A step on tape, with the events that the program held before it and after it, in the order of
/// their places.
#[derive(Debug, Clone)]
pub struct Taped {
    /// What it did to the clocks.
    pub tape: Tape,
    /// Held when it began.
    pub began: Vec<EventId>,
    /// Held when it ended.
    pub ended: Vec<EventId>,
}

/// Steps that are played one after another, again and again.
#[derive(Debug)]
pub struct Player {
    cycle: Vec<Taped>,
    /// The events in the places of those held when the cycle ends.
    now: Vec<EventId>,
    clocks: Clocks,
}

impl Player {
    /// Plays on from where the clocks stand, which is the end of the last step of the cycle.
    pub(super) fn new(cycle: Vec<Taped>, clocks: &Clocks) -> Player {
        let ended = cycle.last().map(|last| last.ended.clone());
        Player {
            cycle,
            now: ended.unwrap_or_default(),
            clocks: clocks.clone(),
        }
    }

    /// Plays the first `steps` of the cycle once more; when the work of each is done. `None`, and
    /// nothing has happened, where an event is not done that was, or the other way round: then the
    /// program goes another way.
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

    /// The clocks as they stand at the end of a whole cycle, with the events under the names that
    /// the program knows.
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
    /// Plays the step: `held` are the events in the places of those that it began with, the answer
    /// those in the places of those that it ended with.
    fn play(&self, clocks: &mut Clocks, held: &[EventId]) -> Option<Vec<EventId>> {
        let made = clocks.next_event;
        let name = |event: EventId| {
            if event.0 >= self.tape.first_event {
                return Some(EventId(made + (event.0 - self.tape.first_event)));
            }
            let place = self.began.iter().position(|known| *known == event);
            place.map(|place| held[place])
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
                // Of those that nothing asks for any more, the name is not known.
                Move::Forget(event) => name(event).into_iter().for_each(|name| clocks.forget(name)),
                Move::Synchronize(stream) => clocks.synchronize(stream),
                Move::Idle => clocks.idle(),
            }
        }
        let ended: Option<Vec<EventId>> = self.ended.iter().map(|&event| name(event)).collect();
        let ended = ended?;
        clocks.events.retain(|event, _| ended.contains(event));
        Some(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDE: StreamId = StreamId(1);

    /// A step on two streams: whether the last step's work on the side stream is done, more of it,
    /// and two launches.
    fn step(clocks: &mut Clocks, held: &mut Vec<EventId>) -> bool {
        let done = held.drain(..).all(|event| clocks.is_done(event));
        clocks.enqueue(SIDE, 0.9);
        clocks.enqueue(StreamId::DEFAULT, 0.1);
        held.push(clocks.record(SIDE));
        done
    }

    /// The side stream is 30 seconds behind, and the host catches up by 1.1 in each step. What is
    /// played is what is computed, until the host has come past the event.
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
