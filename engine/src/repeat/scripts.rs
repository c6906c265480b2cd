//! Steps that do not repeat, because the process grows. They are played from a script
//! ([`crate::script`]), which is written once the program has settled.

use std::rc::{Rc, Weak};

use api::bench::BenchStep;

use super::{Steps, Watch, look_alike};
use crate::autograd::{Tensor, TensorImpl};
use crate::session::{RunError, Scripted, Session, Written};
use crate::workload::Workload;

/// How many first steps make what stays: optimizer states, workspaces.
const SETTLED_AFTER: usize = 3;

/// How many steps can look as if they repeat before a script is written instead.
const PATIENCE: u32 = 4;

/// The script of a run, once there is one.
pub(crate) struct Scripts {
    steps: Steps,
    state: State,
}

enum State {
    NotYet,
    Never,
    Written(Box<Scripted>),
}

/// The program cannot continue, and what was played cannot be undone: the run begins again, without
/// scripts.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl Scripts {
    pub(crate) fn new(steps: Steps) -> Scripts {
        let never = matches!(steps, Steps::All | Steps::Compute);
        Scripts {
            steps,
            state: if never { State::Never } else { State::NotYet },
        }
    }

    /// Plays a step; `None` if there is no script.
    pub(crate) fn play(&mut self, session: &mut Session) -> Option<Result<(), RunError>> {
        match &mut self.state {
            State::Written(script) => Some(session.play(script)),
            State::NotYet | State::Never => None,
        }
    }

    /// Whether steps are played.
    pub(crate) fn is_written(&self) -> bool {
        matches!(self.state, State::Written(_))
    }

    /// Called after a step: writes the next one down, if it is time.
    pub(crate) fn consider(
        &mut self,
        session: &mut Session,
        workload: &mut dyn Workload,
        watch: &Watch,
        facts: &[BenchStep],
    ) -> Result<(), Interrupted> {
        let grows = self.steps == Steps::Play || watch.failures >= PATIENCE || !look_alike(facts);
        let wanted = matches!(self.state, State::NotYet) && grows && facts.len() >= SETTLED_AFTER;
        if !wanted || session.keeps_events() {
            return Ok(());
        }
        self.state = match write(session, workload) {
            Written::Script(script) => State::Written(script),
            Written::Refused => State::Never,
            Written::Lost => return Err(Interrupted),
        };
        Ok(())
    }
}

/// Writes down one step of the program. Afterwards the variables of the program must be the same.
fn write(session: &mut Session, workload: &mut dyn Workload) -> Written {
    let Some(before) = variables(workload) else {
        return Written::Refused;
    };
    let written = session.write_step(&mut |session| workload.step(session));
    let same = variables(workload).is_some_and(|after| {
        let mut pairs = after.iter().zip(&before);
        after.len() == before.len() && pairs.all(|(after, before)| after.ptr_eq(before))
    });
    // If the step failed before its end, gradients may be left.
    workload.visit(&mut |_, tensor| tensor.set_grad(None));
    match written {
        Written::Script(_) if !same => Written::Refused,
        written => written,
    }
}

/// The program's variables; `None` if the program keeps more than its variables, or if they have
/// gradients or places in a graph.
fn variables(workload: &dyn Workload) -> Option<Vec<Weak<TensorImpl>>> {
    let mut variables = Vec::new();
    let mut plain = workload.shows_all();
    workload.visit(&mut |_, tensor: &Tensor| {
        plain &= tensor.0.grad_fn.is_none() && tensor.grad().is_none();
        variables.push(Rc::downgrade(&tensor.0));
    });
    plain.then_some(variables)
}
