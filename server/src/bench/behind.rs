//! The tensors behind a patch: what is alive at the end of one row and not of another.

use crate::store::AliveTensor;
use api::bench::TensorChange;
use std::collections::BTreeMap;
use trace::units::Bytes;

/// Tensors are alike if holder, use, element type and shape are equal.
type Alike<'t> = (String, &'t str, Option<&'t str>, &'t [u64]);

/// Kinds of tensors whose number changed, the largest difference in bytes first.
pub fn changes(before: &[AliveTensor], after: &[AliveTensor]) -> Vec<TensorChange> {
    let mut alike: BTreeMap<Alike<'_>, TensorChange> = BTreeMap::new();
    for tensor in before {
        let change = change_of(&mut alike, tensor);
        change.count_before += 1;
        change.bytes_before += tensor.bytes;
    }
    for tensor in after {
        let change = change_of(&mut alike, tensor);
        change.count_after += 1;
        change.bytes_after += tensor.bytes;
    }
    let differs =
        |c: &TensorChange| (c.count_before, c.bytes_before) != (c.count_after, c.bytes_after);
    let mut found: Vec<TensorChange> = alike.into_values().filter(differs).collect();
    found.sort_by_key(|c| std::cmp::Reverse(c.bytes_before.0.abs_diff(c.bytes_after.0)));
    found
}

fn change_of<'m, 't>(
    alike: &'m mut BTreeMap<Alike<'t>, TensorChange>,
    tensor: &'t AliveTensor,
) -> &'m mut TensorChange {
    let detail = &tensor.detail;
    let owner = kind_of_owner(detail.owner.as_deref().unwrap_or_default());
    let key = (
        owner,
        detail.role.as_str(),
        detail.dtype.as_deref(),
        detail.shape.as_slice(),
    );
    alike
        .entry(key)
        .or_insert_with_key(|(owner, ..)| TensorChange {
            owner: owner.clone(),
            role: detail.role.clone(),
            shape: detail.shape.clone(),
            dtype: detail.dtype.clone(),
            example: detail.name.clone(),
            count_before: 0,
            count_after: 0,
            bytes_before: Bytes::ZERO,
            bytes_after: Bytes::ZERO,
        })
}

/// `held by bwd_tensor_stash` for `held by bwd_tensor_stash[1663] since step 4`: the same text for
/// all tensors that it holds, and for all layers of a model.
fn kind_of_owner(owner: &str) -> String {
    let owner = match owner.rsplit_once(" since step ") {
        Some((owner, _)) => owner,
        None => owner,
    };
    let mut kind = String::with_capacity(owner.len());
    let mut rest = owner;
    while let Some((before, after)) = rest.split_once('[') {
        kind += before;
        rest = after.split_once(']').map_or("", |(_, rest)| rest);
    }
    kind += rest;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let parts = kind.split('.');
    let parts: Vec<&str> = parts
        .map(|part| if is_number(part) { "*" } else { part })
        .collect();
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::timeline::TensorDetail;
    use trace::units::DeviceAddr;

    fn tensor(owner: &str, bytes: u64) -> AliveTensor {
        AliveTensor {
            position: 0,
            event: None,
            address: DeviceAddr(0),
            bytes: Bytes(bytes),
            detail: TensorDetail {
                name: "layers.3: Mul".to_owned(),
                op: "MulBackward0".to_owned(),
                module: "layers.3".to_owned(),
                shape: vec![1, bytes / 2],
                dtype: Some("bfloat16".to_owned()),
                role: "restored".to_owned(),
                made_step: Some(4),
                owner: Some(owner.to_owned()),
            },
        }
    }

    #[test]
    fn what_a_patch_lets_go_comes_first_and_what_stays_is_left_out() {
        let stash =
            |id: u32, step: u32| format!("held by bwd_tensor_stash[{id}] since step {step}");
        let before = [
            tensor(&stash(1, 0), 512),
            tensor(&stash(9, 3), 512),
            tensor("parameter layers.0.weight", 64),
            tensor("held by tracker[4]", 32),
        ];
        let after = [
            tensor("parameter layers.0.weight", 64),
            tensor("held by tracker[7]", 32),
            tensor("held by tracker[8]", 32),
        ];
        let found = changes(&before, &after);
        let found: Vec<_> = found
            .iter()
            .map(|c| {
                (
                    c.owner.as_str(),
                    c.count_before,
                    c.count_after,
                    c.bytes_before.0,
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("held by bwd_tensor_stash", 2, 0, 1024),
                ("held by tracker", 1, 2, 32)
            ]
        );
    }

    #[test]
    fn a_holder_is_the_same_for_all_that_it_holds() {
        let check = |owner: &str, kind: &str| assert_eq!(kind_of_owner(owner), kind);
        check(
            "saved variable 0 of MulBackward0, kept by bwd_tensor_stash[12] since step 0",
            "saved variable 0 of MulBackward0, kept by bwd_tensor_stash",
        );
        check("variable layers.12.out", "variable layers.*.out");
        check("odd [", "odd ");
    }
}
