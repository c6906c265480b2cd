//! The simulated device: no memory and no kernels, only their sizes, their order and their time.
//!
//! Time is virtual, and equal runs have equal times: [`super::clocks`].

use std::collections::BTreeMap;

use trace::units::{Bytes, DeviceAddr};

use super::clocks::{Clocks, Player, Tape, Taped};
use super::{Device, DeviceError, EventId, HostBuffer, Kernel, Span, StreamId, Touched};

/// How fast the simulated machine is. The defaults are those of one H200 on PCIe 5 ×16: the copy
/// rates are the measured ones (docs/measurements.md, "Copies"), the compute rates are assumed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostModel {
    /// Arithmetic rate of kernels, FLOP/s.
    pub flops_per_second: f64,
    /// Memory rate of kernels, bytes/s.
    pub memory_rate: f64,
    /// Pinned copy device to host, bytes/s.
    pub to_host_rate: f64,
    /// Pinned copy host to device, bytes/s.
    pub to_device_rate: f64,
    /// Time the host spends on a launch, seconds.
    pub launch: f64,
    /// Time a kernel or copy takes at least, seconds.
    pub floor: f64,
}

impl Default for CostModel {
    fn default() -> CostModel {
        CostModel {
            flops_per_second: 400e12,
            memory_rate: 3.5e12,
            to_host_rate: 55.4e9,
            to_device_rate: 55.4e9,
            launch: 4e-6,
            floor: 2e-6,
        }
    }
}

/// The rate of one direction while the other is busy too, as a share of its rate alone: both
/// together reach 101.1 GB/s (docs/measurements.md, "Copies").
const BESIDE_THE_OTHER_WAY: f64 = 101.1 / 2.0 / 55.4;

impl CostModel {
    /// The same machine for a program that copies in both directions all the time. Each direction
    /// has its own clock in any case. If one is sometimes busy alone, it is faster than this.
    #[must_use]
    pub fn both_ways(self) -> CostModel {
        CostModel {
            to_host_rate: self.to_host_rate * BESIDE_THE_OTHER_WAY,
            to_device_rate: self.to_device_rate * BESIDE_THE_OTHER_WAY,
            ..self
        }
    }
}

/// Faults to inject, which test how the engine handles them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// The n-th segment allocation (from 0) fails as if memory had run out.
    pub fail_segment: Option<u64>,
    /// All copies take this many times as long.
    pub copy_slowdown: f64,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            fail_segment: None,
            copy_slowdown: 1.0,
        }
    }
}

/// What a simulated device consists of.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SimSpec {
    /// Device memory without that of the context; `None` never runs out.
    pub capacity: Option<Bytes>,
    /// Speed.
    pub cost: CostModel,
    /// Injected faults.
    pub faults: Faults,
}

/// Lowest address that the simulation hands out; it looks like a CUDA address.
const BASE: DeviceAddr = DeviceAddr(0x7f00_0000_0000);
/// Segments begin on this boundary, as `cudaMalloc`'s large allocations do.
const SEGMENT_ALIGNMENT: u64 = 2 << 20;

/// The simulated device.
#[derive(Debug)]
pub struct SimDevice {
    spec: SimSpec,
    segments: BTreeMap<DeviceAddr, Bytes>,
    used: Bytes,
    segment_calls: u64,
    next_host: u64,
    clocks: Clocks,
}

impl SimDevice {
    /// A device with nothing allocated.
    pub fn new(spec: SimSpec) -> SimDevice {
        SimDevice {
            spec,
            segments: BTreeMap::new(),
            used: Bytes::ZERO,
            segment_calls: 0,
            next_host: 1,
            clocks: Clocks::new(spec.cost.launch, spec.cost.floor),
        }
    }

    /// Whether everything it does follows from its clocks and segments. An injected fault does not,
    /// because it counts segments.
    pub(crate) fn repeats(&self) -> bool {
        self.spec.faults.fail_segment.is_none()
    }

    /// From now on, writes down what moves the clocks.
    pub(crate) fn start_tape(&mut self) {
        self.clocks.start_tape();
    }

    /// What has moved the clocks since then.
    pub(crate) fn take_tape(&mut self) -> Option<Tape> {
        self.clocks.take_tape()
    }

    /// Plays the given steps again in a cycle, beginning at the end of the last one.
    pub(crate) fn play(&self, cycle: Vec<Taped>) -> Player {
        Player::new(cycle, &self.clocks)
    }

    /// Continues from the state of the player.
    pub(crate) fn go_on_from(&mut self, player: Player) {
        player.finish(&mut self.clocks);
    }

    /// How long a kernel takes.
    pub(crate) fn seconds(&self, kernel: Kernel) -> f64 {
        let cost = self.spec.cost;
        let arithmetic = kernel.flops / cost.flops_per_second;
        let memory = kernel.traffic.0 as f64 / cost.memory_rate;
        arithmetic.max(memory)
    }

    /// Enqueues a kernel that takes this many seconds.
    pub(crate) fn launch_for(&mut self, stream: StreamId, seconds: f64) {
        self.clocks.enqueue(stream, seconds);
    }

    /// The lowest gap that holds the segment: addresses are used again, as with `cudaMalloc`.
    fn place(&self, bytes: Bytes) -> DeviceAddr {
        let mut at = BASE;
        for (&start, &length) in &self.segments {
            if start >= at + bytes {
                break;
            }
            at = DeviceAddr((start + length).0.next_multiple_of(SEGMENT_ALIGNMENT));
        }
        at
    }
}

impl Device for SimDevice {
    fn name(&self) -> String {
        "sim".to_owned()
    }

    fn allocate_segment(&mut self, bytes: Bytes) -> Result<DeviceAddr, DeviceError> {
        let call = self.segment_calls;
        self.segment_calls += 1;
        let free = self
            .spec
            .capacity
            .map_or(Bytes(u64::MAX), |capacity| capacity - self.used);
        if bytes > free || self.spec.faults.fail_segment == Some(call) {
            return Err(DeviceError::OutOfMemory {
                wanted: bytes,
                free,
            });
        }
        let start = self.place(bytes);
        self.segments.insert(start, bytes);
        self.used += bytes;
        Ok(start)
    }

    fn free_segment(&mut self, start: DeviceAddr, bytes: Bytes) {
        self.segments.remove(&start);
        self.used -= bytes;
        self.clocks.idle();
    }

    fn create_stream(&mut self) -> Result<StreamId, DeviceError> {
        let id = u16::try_from(self.clocks.add_stream())
            .map_err(|_| DeviceError::Fault("too many streams".to_owned()))?;
        Ok(StreamId(id))
    }

    fn launch(
        &mut self,
        stream: StreamId,
        kernel: Kernel,
        _: Touched<'_>,
    ) -> Result<(), DeviceError> {
        let seconds = self.seconds(kernel);
        self.launch_for(stream, seconds);
        Ok(())
    }

    fn copy_to_host(
        &mut self,
        stream: StreamId,
        from: Span,
        _: HostBuffer,
    ) -> Result<(), DeviceError> {
        let seconds = from.bytes.0 as f64 / self.spec.cost.to_host_rate;
        self.clocks
            .enqueue(stream, seconds * self.spec.faults.copy_slowdown);
        Ok(())
    }

    fn copy_to_device(
        &mut self,
        stream: StreamId,
        _: HostBuffer,
        to: Span,
    ) -> Result<(), DeviceError> {
        let seconds = to.bytes.0 as f64 / self.spec.cost.to_device_rate;
        self.clocks
            .enqueue(stream, seconds * self.spec.faults.copy_slowdown);
        Ok(())
    }

    fn allocate_host(&mut self, bytes: Bytes) -> Result<HostBuffer, DeviceError> {
        let handle = self.next_host;
        self.next_host += 1;
        Ok(HostBuffer { handle, bytes })
    }

    fn free_host(&mut self, _: HostBuffer) {}

    fn record_event(&mut self, stream: StreamId) -> Result<EventId, DeviceError> {
        Ok(self.clocks.record(stream))
    }

    fn wait_event(&mut self, stream: StreamId, event: EventId) -> Result<(), DeviceError> {
        self.clocks.wait(stream, event);
        Ok(())
    }

    fn event_done(&mut self, event: EventId) -> bool {
        self.clocks.is_done(event)
    }

    fn synchronize_event(&mut self, event: EventId) -> Result<(), DeviceError> {
        self.clocks.synchronize_event(event);
        Ok(())
    }

    fn drop_event(&mut self, event: EventId) {
        self.clocks.forget(event);
    }

    fn synchronize(&mut self, stream: StreamId) -> Result<(), DeviceError> {
        self.clocks.synchronize(stream);
        Ok(())
    }

    fn busy_until(&self) -> f64 {
        self.clocks.busy_until()
    }

    fn host_time(&self) -> f64 {
        self.clocks.host()
    }

    fn as_sim(&mut self) -> Option<&mut SimDevice> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: Bytes = Bytes::mib(1);

    #[test]
    fn capacity_is_enforced_and_freed_addresses_return() {
        let spec = SimSpec {
            capacity: Some(MIB * 50),
            ..SimSpec::default()
        };
        let mut device = SimDevice::new(spec);
        let first = device.allocate_segment(MIB * 20).unwrap();
        let second = device.allocate_segment(MIB * 20).unwrap();
        assert_ne!(first, second);
        let refused = device.allocate_segment(MIB * 20);
        assert_eq!(
            refused,
            Err(DeviceError::OutOfMemory {
                wanted: MIB * 20,
                free: MIB * 10
            })
        );
        device.free_segment(first, MIB * 20);
        assert_eq!(device.allocate_segment(MIB * 20), Ok(first));
    }

    #[test]
    fn an_injected_fault_fails_one_segment_only() {
        let faults = Faults {
            fail_segment: Some(1),
            ..Faults::default()
        };
        let mut device = SimDevice::new(SimSpec {
            faults,
            ..SimSpec::default()
        });
        assert!(device.allocate_segment(MIB).is_ok());
        assert!(device.allocate_segment(MIB).is_err());
        assert!(device.allocate_segment(MIB).is_ok());
    }

    #[test]
    fn streams_overlap_until_an_event_orders_them() {
        let mut device = SimDevice::new(SimSpec::default());
        let side = device.create_stream().unwrap();
        let span = Span {
            start: BASE,
            bytes: Bytes(554_000_000),
        };
        let host = device.allocate_host(span.bytes).unwrap();
        device.copy_to_host(side, span, host).unwrap();
        let copied = device.record_event(side).unwrap();
        let kernel = Kernel {
            flops: 4e11,
            traffic: Bytes::ZERO,
        };
        device
            .launch(StreamId::DEFAULT, kernel, Touched::default())
            .unwrap();
        // 10 ms of copy beside 1 ms of compute.
        assert!(
            (device.busy_until() - 0.01).abs() < 1e-4,
            "{}",
            device.busy_until()
        );
        assert!(!device.event_done(copied));
        device.wait_event(StreamId::DEFAULT, copied).unwrap();
        device
            .launch(StreamId::DEFAULT, kernel, Touched::default())
            .unwrap();
        assert!(
            (device.busy_until() - 0.011).abs() < 1e-4,
            "{}",
            device.busy_until()
        );
        device.synchronize(StreamId::DEFAULT).unwrap();
        assert!(device.event_done(copied));
    }

    #[test]
    fn slow_copies_take_longer() {
        let faults = Faults {
            copy_slowdown: 10.0,
            ..Faults::default()
        };
        let mut device = SimDevice::new(SimSpec {
            faults,
            ..SimSpec::default()
        });
        let span = Span {
            start: BASE,
            bytes: Bytes(554_000_000),
        };
        let host = device.allocate_host(span.bytes).unwrap();
        device.copy_to_host(StreamId::DEFAULT, span, host).unwrap();
        assert!((device.busy_until() - 0.1).abs() < 1e-3);
    }
}
