//! Quantities with a unit: bytes, microseconds, event indexes, device addresses. [`size`] reads and
//! writes sizes in bytes, [`numbers`] says with how many digits.
//!
//! Where one of these types fits, no public signature of this crate has a plain number.

pub mod numbers;
pub mod size;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// All digits of a count, in groups of three: `11,034,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of bytes. At most `i64::MAX` in anything that is stored, because SQLite stores `i64`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Bytes(pub u64);

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Bytes = Bytes(0);

    /// `n` KiB.
    pub const fn kib(n: u64) -> Bytes {
        Bytes(n << 10)
    }

    /// `n` MiB.
    pub const fn mib(n: u64) -> Bytes {
        Bytes(n << 20)
    }

    /// `n` GiB.
    pub const fn gib(n: u64) -> Bytes {
        Bytes(n << 30)
    }

    /// The plain number, for use at the edges (SQL, JSON, pixels).
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `self + other`, or the largest number that there is.
    pub const fn saturating_add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }

    /// `self - other`, or zero when `other` is larger.
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0 - other.0)
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Bytes) {
        self.0 -= other.0;
    }
}

/// This many times as much.
impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, times: u64) -> Bytes {
        Bytes(self.0 * times)
    }
}

/// One of so many equal shares.
impl Div<u64> for Bytes {
    type Output = Bytes;
    fn div(self, shares: u64) -> Bytes {
        Bytes(self.0 / shares)
    }
}

/// How often the other fits into it.
impl Div for Bytes {
    type Output = u64;
    fn div(self, other: Bytes) -> u64 {
        self.0 / other.0
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(iter: I) -> Bytes {
        iter.fold(Bytes::ZERO, Add::add)
    }
}

/// Microseconds since the Unix epoch. A label of an event, never its order: a quarter of the
/// events of a real trace share their timestamp with another.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Micros(pub i64);

/// The position of an event in its device's trace. Events are ordered by it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventIdx(pub u32);

impl EventIdx {
    /// As an index into a column.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for EventIdx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An address in device memory. Reused during a run: never an identity on its own.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceAddr(pub u64);

impl Add<Bytes> for DeviceAddr {
    type Output = DeviceAddr;
    fn add(self, distance: Bytes) -> DeviceAddr {
        DeviceAddr(self.0 + distance.0)
    }
}

/// The distance to the other address.
impl Sub for DeviceAddr {
    type Output = Bytes;
    fn sub(self, other: DeviceAddr) -> Bytes {
        Bytes(self.0 - other.0)
    }
}

impl fmt::Display for DeviceAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
