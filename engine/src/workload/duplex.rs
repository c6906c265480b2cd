//! The stack of blocks, with the backward pass of one micro-batch next to the forward pass of the
//! next one. So copies can go in both directions at once.

use super::{MlpStack, Workload};
use crate::autograd::{Pass, Tensor};
use crate::session::{RunError, Session};

/// A step runs one micro-batch forward and the one before it backward, block by block.
pub struct DuplexStack {
    stack: MlpStack,
    /// The micro-batch whose backward pass comes next.
    behind: Option<Pass>,
}

impl DuplexStack {
    /// A stack that has not run any micro-batch yet.
    pub fn new(stack: MlpStack) -> DuplexStack {
        DuplexStack {
            stack,
            behind: None,
        }
    }

    fn pass(&mut self, s: &mut Session) -> Result<(), RunError> {
        let mut behind = self.behind.take();
        let loss = self.stack.forward_beside(s, &mut |s| match &mut behind {
            Some(pass) => s.backward_through_module(pass),
            None => Ok(()),
        })?;
        let mut pass = s.begin_pass(&loss)?;
        s.backward_through_module(&mut pass)?;
        self.behind = Some(pass);
        Ok(())
    }
}

impl Workload for DuplexStack {
    fn step(&mut self, s: &mut Session) -> Result<(), RunError> {
        s.enter();
        let outcome = self.pass(s);
        let left = s.exit();
        self.stack.zero_grad();
        outcome?;
        left
    }

    fn visit(&self, visit: &mut dyn FnMut(&str, &Tensor)) {
        self.stack.visit(visit);
    }
}
