//! What the timeline asks for besides tiles: marks, blocks, moments.

use crate::contents::CategoryBytes;
use crate::frames::{ForwardOp, FrameText};
use serde::{Deserialize, Serialize};
use trace::phases::Phase;
use trace::span::Span;
use trace::stays::HostStay;
use trace::trace::{Action, Levels, Origin, PoolId, PoolSize, Step};
use trace::units::{Bytes, DeviceAddr, EventIdx, Micros};

/// Marks of one device, for bands and rules over the timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Marks {
    /// The steps.
    pub steps: Vec<Step>,
    /// Named scopes, longest first, at most [`Marks::MAX_ANNOTATIONS`] of them.
    pub annotations: Vec<AnnotationMark>,
    /// Named scopes left out.
    pub annotations_left_out: u64,
    /// Failed allocations, the first [`Marks::MAX_OOMS`] of them.
    pub ooms: Vec<OomMark>,
    /// Failed allocations left out.
    pub ooms_left_out: u64,
    /// Capacity of the device, when a failed allocation tells it (reserved + free then).
    pub capacity: Option<Bytes>,
    /// When blocks of pinned host memory were taken and given back, longest first, at most
    /// [`Marks::MAX_STAYS`] of them.
    pub stays: Vec<HostStay>,
    /// Stays left out.
    pub stays_left_out: u64,
}

impl Marks {
    /// Version of the meaning of these answers; part of their address.
    pub const VERSION: u32 = 20;

    /// The largest number of named scopes in an answer; the others are only counted.
    pub const MAX_ANNOTATIONS: usize = 4000;

    /// The largest number of failed allocations in an answer; the others are only counted.
    pub const MAX_OOMS: usize = 64;

    /// The largest number of stays on the host in an answer; the others are only counted.
    pub const MAX_STAYS: usize = 10_000;
}

/// A named scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AnnotationMark {
    /// Its name.
    pub name: String,
    /// Its events.
    #[cfg_attr(feature = "openapi", schema(value_type = [u32; 2]))]
    pub events: Span<EventIdx>,
    /// How many scopes enclose it.
    pub depth: u16,
}

/// A failed allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OomMark {
    /// The event.
    pub event: EventIdx,
    /// The requested bytes.
    pub size: Bytes,
    /// The free bytes of the driver; `null` where the recording does not say.
    pub device_free: Option<Bytes>,
    /// Position of the step in which it failed.
    pub step: Option<u32>,
    /// The phase in which it failed, inferred.
    pub phase: Phase,
    /// Upper bound (exclusive) of the process's own limit, where one must have refused since the
    /// driver had enough.
    pub limit: Option<Bytes>,
    /// Lower bound of that limit.
    pub limit_at_least: Option<Bytes>,
    /// *Allocated* then.
    pub allocated: Bytes,
    /// *Reserved* then.
    pub reserved: Bytes,
    /// The operation that asked: `mm`, or the innermost function of a framework.
    pub operation: Option<String>,
    /// The line of the program that called it; absent without a stack.
    pub frame: Option<FrameText>,
    /// What was allocated, by category, most bytes first.
    pub held: Vec<CategoryBytes>,
}

/// Everything about one block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BlockDetail {
    /// Its index; with the run and device its identity.
    pub block: u32,
    /// Address.
    pub addr: DeviceAddr,
    /// Requested bytes.
    pub requested: Bytes,
    /// Bytes of the block.
    pub size: Bytes,
    /// How it is known.
    pub origin: Origin,
    /// Event and time of its allocation; absent when before the trace.
    pub alloc: Option<(EventIdx, Micros)>,
    /// Event and time at which the program gave it back; absent when not in the trace.
    pub free_requested: Option<(EventIdx, Micros)>,
    /// Whether the program had given it back before the trace began, while other streams used it.
    #[serde(default)]
    pub freed_before: bool,
    /// Event and time at which it became reusable.
    pub free_completed: Option<(EventIdx, Micros)>,
    /// Name of the step it was allocated in.
    pub step: Option<String>,
    /// Raw stream handle; 0 is the default stream.
    pub stream: u64,
    /// Pool.
    pub pool: PoolId,
    /// Small or large.
    pub pool_size: PoolSize,
    /// Compile context, metadata: shown as given.
    pub notes: Vec<(String, String)>,
    /// Allocation stack, innermost first; empty when none was captured.
    pub alloc_stack: Vec<FrameText>,
    /// Stack of the free, when captured.
    pub free_stack: Vec<FrameText>,
    /// For an allocation of a backward pass without a Python stack: the forward operation that it
    /// belongs to, inferred.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub forward: Option<ForwardOp>,
    /// What the engine knows of it; none for uploads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor: Option<TensorDetail>,
}

/// What the engine knows of a tensor, and no snapshot can say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TensorDetail {
    /// The program's name for it, or the module and operation that made it.
    pub name: String,
    /// Operation that made it; empty where the program did.
    pub op: String,
    /// Module or layer that it was made in.
    pub module: String,
    /// Shape; empty for a number, and for memory that is not a tensor.
    pub shape: Vec<u64>,
    /// Element type under PyTorch's name; none for memory that is not a tensor.
    pub dtype: Option<String>,
    /// What it is for: `parameter`, `activation`, `restored` …
    pub role: String,
    /// Step in which it was made, from 0; none before the first.
    pub made_step: Option<u32>,
    /// What keeps it alive at the end; none where it has been freed.
    pub owner: Option<String>,
}

/// One event and the levels there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Moment {
    /// The event.
    pub event: EventIdx,
    /// What happened.
    pub action: Action,
    /// When.
    pub time: Micros,
    /// Address concerned; for `oom` absent.
    pub addr: Option<DeviceAddr>,
    /// Size of the event.
    pub size: Bytes,
    /// Block concerned.
    pub block: Option<u32>,
    /// Levels after the event: requested, allocated, active, reserved.
    pub levels: Levels,
    /// Name of the step it lies in.
    pub step: Option<String>,
}
