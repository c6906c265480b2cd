//! How long a step takes, once what only the first steps do is over.

use api::bench::DeviceKind;

use super::run::median;
use crate::session::{Copied, RunError, Session};

/// First steps, which pin memory and fill the cache.
const WARM_UP: usize = 3;
/// Seconds until a card keeps its clock. At its limit of power it lowers the clock, and it takes a
/// second to find out. Without this, what runs first would run at a higher clock than what is
/// compared with it: on an H200 (limit 700 W) an offloader seemed to cost 4 % of a step, not 2.
const CLOCK_SETTLES: f64 = 2.0;

/// The steps of one run.
pub(super) struct Timing {
    settles: f64,
    seconds: Vec<f64>,
    /// How many of them are a warm-up.
    warm_up: usize,
    /// What was copied when the warm-up ended, and until now.
    copied: [Copied; 2],
}

impl Timing {
    /// No steps yet.
    pub fn on(device: DeviceKind) -> Timing {
        Timing {
            settles: match device {
                DeviceKind::Sim => 0.0,
                DeviceKind::Cuda => CLOCK_SETTLES,
            },
            seconds: Vec::new(),
            warm_up: 0,
            copied: [Copied::default(); 2],
        }
    }

    /// Runs steps until `timed` of them came after the warm-up.
    ///
    /// # Errors
    /// As `step`; the steps before it stay.
    pub fn run(
        &mut self,
        timed: u32,
        session: &mut Session,
        mut step: impl FnMut(&mut Session) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let mut before = session.heap().borrow_mut().device.settle()?;
        while self.seconds.len() - self.warm_up < timed as usize {
            step(session)?;
            let now = session.heap().borrow_mut().device.settle()?;
            self.push(now - before, session.accelerator.copied());
            before = now;
        }
        Ok(())
    }

    fn push(&mut self, seconds: f64, copied: Copied) {
        let so_far: f64 = self.seconds.iter().sum();
        if self.seconds.len() < WARM_UP || so_far < self.settles {
            self.warm_up += 1;
            self.copied[0] = copied;
        }
        self.copied[1] = copied;
        self.seconds.push(seconds);
    }

    /// What a step after the warm-up copies, on average; nothing if there is none.
    pub fn copied_a_step(&self) -> Copied {
        let [before, now] = self.copied;
        let timed = self.seconds.len() - self.warm_up;
        now.since(before).over(timed.max(1) as u64)
    }

    /// The median step after the warm-up, seconds; 0 if there is none.
    pub fn step_seconds(&self) -> f64 {
        median(&self.seconds[self.warm_up..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::units::Bytes;

    #[test]
    fn steps_count_once_the_clock_is_steady() {
        let check = |device, seconds: &[f64], warm_up: usize, expected: f64| {
            let mut timing = Timing::on(device);
            for &step in seconds {
                timing.push(step, Copied::default());
            }
            assert_eq!(timing.warm_up, warm_up, "{seconds:?}");
            assert_eq!(timing.step_seconds(), expected, "{seconds:?}");
        };
        check(DeviceKind::Sim, &[9.0, 9.0], 2, 0.0);
        check(DeviceKind::Sim, &[0.1, 0.1, 0.1, 0.2, 0.3, 0.4], 3, 0.3);
        // Long steps need no more of them, short ones do.
        check(DeviceKind::Cuda, &[3.0, 1.0, 1.0, 0.5], 3, 0.5);
        check(DeviceKind::Cuda, &[0.5, 0.5, 0.5, 0.5, 0.7], 4, 0.7);
        check(DeviceKind::Cuda, &[0.5, 0.5, 0.5], 3, 0.0);
    }

    /// The first steps may copy more: modules that stay later move in the first pass.
    #[test]
    fn what_a_step_copies_does_not_depend_on_how_many_there_are() {
        let of = |steps: usize| {
            let mut timing = Timing::on(DeviceKind::Sim);
            let mut copied = Copied::default();
            for step in 0..steps {
                copied = copied.and(Copied {
                    to_host: Bytes(if step < WARM_UP { 900 } else { 100 }),
                    to_device: Bytes(if step < WARM_UP { 700 } else { 50 }),
                });
                timing.push(0.1, copied);
            }
            let Copied { to_host, to_device } = timing.copied_a_step();
            (to_host.0, to_device.0)
        };
        assert_eq!([0, WARM_UP].map(of), [(0, 0); 2]);
        assert_eq!([1, 2, 8].map(|timed| of(WARM_UP + timed)), [(100, 50); 3]);
    }
}
