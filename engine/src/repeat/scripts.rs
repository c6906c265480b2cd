//! Steps that do not repeat, because the process grows: they are played from a script
//! ([`crate::script`]), which is written once the program has settled.

use std::rc::{Rc, Weak};

use api::bench::BenchStep;

use super::{Steps, Watch, look_alike};
use crate::autograd::{Tensor, TensorImpl};
use crate::session::{RunError, Scripted, Session, Written};
use crate::workload::Workload;

/// The first steps make what stays: optimizer states, workspaces.
const SETTLED_AFTER: usize = 3;

/// Steps that may still be found to repeat, once they look as if they did.
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

/// The program cannot go on, nor can what was played be taken back: the run begins again, without
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

    /// Runs a step; `None` where none is written.
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

    /// After a step: writes the next one down, if it is time.
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

/// Writes a step of the program down. It must leave what the program shows as it was.
fn write(session: &mut Session, workload: &mut dyn Workload) -> Written {
    let Some(before) = variables(workload) else {
        return Written::Refused;
    };
    let written = session.write_step(&mut |session| workload.step(session));
    let same = variables(workload).is_some_and(|after| {
        let mut pairs = after.iter().zip(&before);
        after.len() == before.len() && pairs.all(|(after, before)| after.ptr_eq(before))
    });
    // Of a step that failed on its way.
    workload.visit(&mut |_, tensor| tensor.set_grad(None));
    match written {
        Written::Script(_) if !same => Written::Refused,
        written => written,
    }
}

/// The program's variables; `None` where it keeps more than those, or where they have gradients or
/// places in a graph.
fn variables(workload: &dyn Workload) -> Option<Vec<Weak<TensorImpl>>> {
    let mut variables = Vec::new();
    let mut plain = workload.shows_all();
    workload.visit(&mut |_, tensor: &Tensor| {
        plain &= tensor.0.grad_fn.is_none() && tensor.grad().is_none();
        variables.push(Rc::downgrade(&tensor.0));
    });
    plain.then_some(variables)
}
