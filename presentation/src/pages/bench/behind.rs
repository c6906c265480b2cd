//! The tensors behind a bar of the root-cause chain.

use ::timeline::format;
use api::bench::{TensorChange, TensorChanges};

/// `held by bwd_tensor_stash · −27 × 8.00 MiB bfloat16 [1, 512, 4096], restored`.
pub fn sentence(change: &TensorChange) -> String {
    let (counts, bytes) = (
        (change.count_before, change.count_after),
        (change.bytes_before, change.bytes_after),
    );
    let number = counts.0.abs_diff(counts.1);
    let size = bytes.0.0.abs_diff(bytes.1.0);
    let sign = if bytes.0 > bytes.1 { '−' } else { '+' };
    let amount = match size.checked_div(number) {
        // As many tensors, but of other sizes, or of several sizes.
        None => format!("{sign}{}", format::bytes(size)),
        Some(each) if each * number != size => format!("{sign}{} in {number}", format::bytes(size)),
        Some(each) => format!("{sign}{number} × {}", format::bytes(each)),
    };
    let dtype = change.dtype.as_deref();
    let dtype = dtype.map(|dtype| format!(" {}", dtype.trim_start_matches("torch.")));
    let shape = (!change.shape.is_empty()).then(|| format!(" {:?}", change.shape));
    format!(
        "{} · {amount}{}{}, {}",
        change.owner,
        dtype.unwrap_or_default(),
        shape.unwrap_or_default(),
        change.role.replace('_', " "),
    )
}

/// The moments at which the tensors were compared.
pub fn basis(found: &TensorChanges) -> String {
    let after = format::plural(u64::from(found.steps_after), "recorded step");
    match found.steps_before == found.steps_after {
        true => format!("Alive after {after}, with the patch and without it."),
        false => format!(
            "Alive after {after} with the patch, after {} without it: not the same moment.",
            found.steps_before
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::units::Bytes;

    #[test]
    fn a_change_says_who_holds_how_many_of_what() {
        let mut change = TensorChange {
            owner: "held by bwd_tensor_stash".to_owned(),
            role: "restored".to_owned(),
            shape: vec![1, 512, 4096],
            dtype: Some("torch.bfloat16".to_owned()),
            example: "layers.3: Mul".to_owned(),
            count_before: 30,
            count_after: 3,
            bytes_before: Bytes::mib(4) * 30,
            bytes_after: Bytes::mib(4) * 3,
        };
        assert_eq!(
            sentence(&change),
            "held by bwd_tensor_stash · −27 × 4.00 MiB bfloat16 [1, 512, 4096], restored"
        );
        (change.count_after, change.bytes_after) = (30, Bytes::mib(4) * 31);
        (change.shape, change.dtype) = (vec![], None);
        assert_eq!(
            sentence(&change),
            "held by bwd_tensor_stash · +4.00 MiB, restored"
        );
    }
}
