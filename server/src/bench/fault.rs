//! Faults of a row's process, to test how the server reacts. No shipped program has them: only
//! tests turn the feature `faults` on.

use serde::{Deserialize, Serialize};

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The process panics after a step.
    Panic {
        /// After which, from 0.
        step: u32,
    },
    /// The process is aborted after a step, as after a fault of the driver.
    Abort {
        /// After which, from 0.
        step: u32,
    },
    /// The process takes all memory after a step.
    Devour {
        /// After which, from 0.
        step: u32,
    },
    /// The process stands still after a step.
    Hang {
        /// After which, from 0.
        step: u32,
    },
    /// Every step takes this many milliseconds longer.
    Slow {
        /// Milliseconds.
        by_ms: u64,
    },
}

/// Causes the fault, if this is the step for it.
pub fn misbehave(fault: Option<&Fault>, after: u32) {
    match fault {
        Some(Fault::Panic { step }) if *step == after => panic!("a fault was injected"),
        Some(Fault::Abort { step }) if *step == after => std::process::abort(),
        Some(Fault::Devour { step }) if *step == after => devour(),
        Some(Fault::Hang { step }) if *step == after => loop {
            std::thread::park();
        },
        Some(Fault::Slow { by_ms }) => {
            std::thread::sleep(std::time::Duration::from_millis(*by_ms));
        }
        _ => {}
    }
}

/// Takes memory, page by page so that it is really used, until it is stopped.
fn devour() {
    let mut eaten: Vec<Vec<u8>> = Vec::new();
    loop {
        eaten.push(vec![1; 16 << 20]);
        std::hint::black_box(&eaten);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
