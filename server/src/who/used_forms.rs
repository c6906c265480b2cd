//! Forms that were sent. Each is good for one time: a page that is loaded again sends its form
//! again, and must not make a second token.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// So many are remembered, the newest ones.
const MOST: usize = 1000;
/// The number of a form is shorter; another one is not ours, and is not remembered.
const LONGEST: usize = 64;

/// The numbers of the forms that were sent.
#[derive(Debug, Default)]
pub struct UsedForms {
    used: Mutex<VecDeque<String>>,
}

impl UsedForms {
    /// Whether the form with this number is sent for the first time.
    pub fn is_first(&self, number: &str) -> bool {
        if number.len() > LONGEST {
            return true;
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.iter().any(|known| known == number) {
            return false;
        }
        used.push_back(number.to_owned());
        let more = used.len().saturating_sub(MOST);
        drop(used.drain(..more));
        true
    }

    /// Forgets a form that was refused: what it asked for may be corrected and sent again.
    pub fn give_back(&self, number: &str) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|known| known != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_good_for_one_time() {
        let forms = UsedForms::default();
        assert!(forms.is_first("a") && forms.is_first("b"));
        assert!(!forms.is_first("a"));
        forms.give_back("a");
        assert!(forms.is_first("a"));
        for n in 0..=MOST {
            assert!(forms.is_first(&n.to_string()));
        }
        assert!(forms.is_first(&"x".repeat(LONGEST + 1)));
        assert_eq!(forms.used.lock().unwrap().len(), MOST);
    }
}
