//! A device with contents and the worst legal timing: late streams do nothing until somebody waits
//! for them, and the other streams do their work at once.
//!
//! Contents are symbols, not bytes: a write leaves "write number n", and a copy passes this on.
//! Whatever the timing, what comes back must equal what was packed, unless an order is missing.

use std::collections::{BTreeMap, HashMap, VecDeque};

use api::bench::CardFacts;
use engine::device::sim::{SimDevice, SimSpec};
use engine::device::{
    Device, DeviceError, EventId, Fingerprint, HostBuffer, Kernel, Span, StreamId, Touched, View,
};
use engine::tensor::Layout;
use trace::units::{Bytes, DeviceAddr};

/// Which streams are late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// The default stream.
    Default,
    /// Every other stream.
    Side,
}

/// Bytes `from..from + bytes` of write number `write`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Piece {
    bytes: u64,
    write: u64,
    from: u64,
}

type Content = Vec<Piece>;

/// Memory that nobody has written is write number 0.
#[derive(Default)]
struct Memory(BTreeMap<u64, Piece>);

impl Memory {
    fn read(&self, span: Span) -> Content {
        let (start, end) = (span.start.0, (span.start + span.bytes).0);
        let mut content = Content::new();
        let mut at = start;
        let before = self.0.range(..=start).next_back();
        let first = before.map_or(start, |(&start, _)| start);
        for (&start, piece) in self.0.range(first..end) {
            let (from, to) = (start.max(at), (start + piece.bytes).min(end));
            if to <= from {
                continue;
            }
            push(&mut content, unwritten(at, from));
            let skipped = Piece {
                bytes: to - from,
                from: piece.from + (from - start),
                ..*piece
            };
            push(&mut content, skipped);
            at = to;
        }
        push(&mut content, unwritten(at, end));
        content
    }

    fn write(&mut self, start: u64, content: &Content) {
        let bytes: u64 = content.iter().map(|piece| piece.bytes).sum();
        self.cut(start);
        self.cut(start + bytes);
        let inside: Vec<u64> = self
            .0
            .range(start..start + bytes)
            .map(|(&at, _)| at)
            .collect();
        for at in inside {
            self.0.remove(&at);
        }
        let mut at = start;
        for piece in content {
            self.0.insert(at, *piece);
            at += piece.bytes;
        }
    }

    fn cut(&mut self, at: u64) {
        let Some((&start, &piece)) = self.0.range(..at).next_back() else {
            return;
        };
        let head = at - start;
        if head < piece.bytes {
            self.0.insert(
                start,
                Piece {
                    bytes: head,
                    ..piece
                },
            );
            let tail = Piece {
                bytes: piece.bytes - head,
                from: piece.from + head,
                ..piece
            };
            self.0.insert(at, tail);
        }
    }
}

fn unwritten(start: u64, end: u64) -> Piece {
    Piece {
        bytes: end.saturating_sub(start),
        write: 0,
        from: start,
    }
}

/// Adds a piece, or joins it to the last piece if it continues that one. So equal contents are
/// equal lists.
fn push(content: &mut Content, piece: Piece) {
    if piece.bytes == 0 {
        return;
    }
    if let Some(last) = content.last_mut()
        && last.write == piece.write
        && last.from + last.bytes == piece.from
    {
        last.bytes += piece.bytes;
        return;
    }
    content.push(piece);
}

enum Work {
    Write(Span, u64),
    Out(Span, u64),
    In(u64, Span),
    Gather(View, u64),
    Print(View, u64),
    Verify(View, u64),
    Wait(StreamId, u64),
}

/// The device.
pub struct LateDevice {
    sim: SimDevice,
    memory: Memory,
    host: HashMap<u64, Content>,
    queues: Vec<VecDeque<Work>>,
    /// How much work each stream has been given, and how much it has done.
    given: Vec<u64>,
    done: Vec<u64>,
    events: HashMap<EventId, (StreamId, u64)>,
    prints: HashMap<u64, Content>,
    /// Numbers for the contents of strided views, as if each had been written by one write.
    strided: HashMap<(Content, Layout), u64>,
    late: Late,
    next: u64,
    verified: u64,
    corrupted: u64,
}

impl LateDevice {
    pub fn new(late: Late) -> LateDevice {
        LateDevice {
            sim: SimDevice::new(SimSpec::default()),
            memory: Memory::default(),
            host: HashMap::new(),
            queues: vec![VecDeque::new()],
            given: vec![0],
            done: vec![0],
            events: HashMap::new(),
            prints: HashMap::new(),
            strided: HashMap::new(),
            late,
            next: 0,
            verified: 0,
            corrupted: 0,
        }
    }

    fn finish(&mut self) {
        for stream in 0..self.queues.len() {
            self.catch_up(StreamId(stream as u16), u64::MAX);
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn enqueue(&mut self, stream: StreamId, work: Work) {
        let index = usize::from(stream.0);
        self.queues[index].push_back(work);
        self.given[index] += 1;
        if (stream == StreamId::DEFAULT) == (self.late == Late::Side) {
            self.catch_up(stream, u64::MAX);
        }
    }

    /// The contents of a view, element by element.
    fn logical(&mut self, view: &View) -> Content {
        let range = self.memory.read(span_of(view));
        if view.layout.is_contiguous() {
            return range;
        }
        let known = self.strided.len() as u64;
        let number = self.strided.entry((range, view.layout)).or_insert(known);
        let whole = Piece {
            bytes: (view.width * view.layout.elements()).0,
            write: u64::MAX - *number,
            from: 0,
        };
        vec![whole]
    }

    fn catch_up(&mut self, stream: StreamId, to: u64) {
        let index = usize::from(stream.0);
        while self.done[index] < to {
            let Some(work) = self.queues[index].pop_front() else {
                return;
            };
            self.done[index] += 1;
            match work {
                Work::Write(span, write) => {
                    let piece = Piece {
                        bytes: span.bytes.0,
                        write,
                        from: 0,
                    };
                    self.memory.write(span.start.0, &vec![piece]);
                }
                Work::Out(span, handle) => {
                    self.host.insert(handle, self.memory.read(span));
                }
                Work::In(handle, span) => {
                    let content = self.host.get(&handle).cloned().unwrap_or_default();
                    self.memory.write(span.start.0, &content);
                }
                Work::Gather(from, to) => {
                    let content = self.logical(&from);
                    self.memory.write(to, &content);
                }
                Work::Print(view, print) => {
                    let content = self.logical(&view);
                    self.prints.insert(print, content);
                }
                Work::Verify(view, print) => {
                    let now = self.logical(&view);
                    self.verified += 1;
                    self.corrupted += u64::from(self.prints.remove(&print) != Some(now));
                }
                Work::Wait(on, position) => self.catch_up(on, position),
            }
        }
    }
}

/// The range that contains the elements of a view.
fn span_of(view: &View) -> Span {
    let start = view.storage.start + view.width * view.layout.offset;
    let end = view.storage.start + view.storage.bytes;
    let reach = view.layout.required_elements();
    let elements = reach.saturating_sub(view.layout.offset);
    let room = Bytes(end.0.saturating_sub(start.0));
    Span {
        start,
        bytes: (view.width * elements).min(room),
    }
}

impl Device for LateDevice {
    fn name(&self) -> String {
        "late".to_owned()
    }

    fn allocate_segment(&mut self, bytes: Bytes) -> Result<DeviceAddr, DeviceError> {
        self.sim.allocate_segment(bytes)
    }

    fn free_segment(&mut self, start: DeviceAddr, bytes: Bytes) {
        self.finish();
        self.sim.free_segment(start, bytes);
    }

    fn create_stream(&mut self) -> Result<StreamId, DeviceError> {
        self.queues.push(VecDeque::new());
        self.given.push(0);
        self.done.push(0);
        self.sim.create_stream()
    }

    fn launch(
        &mut self,
        stream: StreamId,
        kernel: Kernel,
        touched: Touched<'_>,
    ) -> Result<(), DeviceError> {
        self.sim.launch(stream, kernel, Touched::default())?;
        for &span in touched.writes {
            let write = self.number();
            self.enqueue(stream, Work::Write(span, write));
        }
        Ok(())
    }

    fn gather(
        &mut self,
        stream: StreamId,
        kernel: Kernel,
        from: &View,
        to: Span,
    ) -> Result<(), DeviceError> {
        self.sim.launch(stream, kernel, Touched::default())?;
        self.enqueue(stream, Work::Gather(*from, to.start.0));
        Ok(())
    }

    fn copy_to_host(
        &mut self,
        stream: StreamId,
        from: Span,
        to: HostBuffer,
    ) -> Result<(), DeviceError> {
        self.sim.copy_to_host(stream, from, to)?;
        self.enqueue(stream, Work::Out(from, to.handle));
        Ok(())
    }

    fn copy_to_device(
        &mut self,
        stream: StreamId,
        from: HostBuffer,
        to: Span,
    ) -> Result<(), DeviceError> {
        self.sim.copy_to_device(stream, from, to)?;
        self.enqueue(stream, Work::In(from.handle, to));
        Ok(())
    }

    fn allocate_host(&mut self, bytes: Bytes) -> Result<HostBuffer, DeviceError> {
        self.sim.allocate_host(bytes)
    }

    fn free_host(&mut self, buffer: HostBuffer) {
        self.sim.free_host(buffer);
    }

    fn record_event(&mut self, stream: StreamId) -> Result<EventId, DeviceError> {
        let event = self.sim.record_event(stream)?;
        let position = self.given[usize::from(stream.0)];
        self.events.insert(event, (stream, position));
        Ok(event)
    }

    fn wait_event(&mut self, stream: StreamId, event: EventId) -> Result<(), DeviceError> {
        self.sim.wait_event(stream, event)?;
        if let Some(&(on, position)) = self.events.get(&event) {
            self.enqueue(stream, Work::Wait(on, position));
        }
        Ok(())
    }

    fn event_done(&mut self, event: EventId) -> bool {
        let done = self.sim.event_done(event);
        if let Some(&(on, position)) = self.events.get(&event).filter(|_| done) {
            self.catch_up(on, position);
        }
        done
    }

    fn synchronize_event(&mut self, event: EventId) -> Result<(), DeviceError> {
        if let Some(&(on, position)) = self.events.get(&event) {
            self.catch_up(on, position);
        }
        self.sim.synchronize_event(event)
    }

    fn drop_event(&mut self, event: EventId) {
        self.events.remove(&event);
        self.sim.drop_event(event);
    }

    fn synchronize(&mut self, stream: StreamId) -> Result<(), DeviceError> {
        self.catch_up(stream, u64::MAX);
        self.sim.synchronize(stream)
    }

    fn keeps_contents(&self) -> bool {
        true
    }

    fn initialise(&mut self, stream: StreamId, to: Span) -> Result<(), DeviceError> {
        let write = self.number();
        self.enqueue(stream, Work::Write(to, write));
        Ok(())
    }

    fn fingerprint(
        &mut self,
        stream: StreamId,
        view: &View,
    ) -> Result<Option<Fingerprint>, DeviceError> {
        let print = self.number();
        self.enqueue(stream, Work::Print(*view, print));
        Ok(Some(Fingerprint(print)))
    }

    fn verify(
        &mut self,
        stream: StreamId,
        view: &View,
        packed: Fingerprint,
    ) -> Result<(), DeviceError> {
        self.enqueue(stream, Work::Verify(*view, packed.0));
        Ok(())
    }

    fn hardware(&mut self) -> Result<Option<CardFacts>, DeviceError> {
        self.finish();
        Ok(Some(CardFacts {
            total: Bytes::ZERO,
            free_at_start: Bytes::ZERO,
            free_min: Bytes::ZERO,
            peak_used: Bytes::ZERO,
            verified_tensors: self.verified,
            corrupted_tensors: self.corrupted,
            early_decisions: 0,
        }))
    }

    fn busy_until(&self) -> f64 {
        self.sim.busy_until()
    }

    fn host_time(&self) -> f64 {
        self.sim.host_time()
    }
}
