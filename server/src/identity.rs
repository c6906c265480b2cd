//! Makes ids: runs and comparisons are named by their content, everything else at random.

use answers::identity::{DIGITS, base62, leading};
use api::ids::{
    BenchId, BenchRowId, ComparisonId, JobId, LiveId, PersonId, RunId, SessionId, ShareId, TokenId,
    UploadId, ViewId,
};
use std::str::FromStr;
use trace::redact::Key;

/// Characters of a link's id after its prefix. The id is a name, not a secret: with 59 bits, ids
/// practically never collide.
const SHARE_DIGITS: usize = 10;

/// Characters of a link's secret: 22 of base 62 hold 128 bits.
pub const TOKEN_DIGITS: usize = 22;

/// The id of the run that is made from bytes with this hash.
pub fn run_id(hash: &blake3::Hash) -> RunId {
    answers::identity::run_id(hash.as_bytes())
}

/// The id of the comparison of these runs for this pull request.
pub fn comparison_id(runs: &[RunId], pr: Option<&str>) -> ComparisonId {
    let mut hasher = blake3::Hasher::new();
    for run in runs {
        hasher.update(run.as_str().as_bytes()).update(b"\n");
    }
    hasher
        .update(b"\n")
        .update(pr.unwrap_or_default().as_bytes());
    let digits = base62(leading(hasher.finalize().as_bytes()), DIGITS);
    let text = format!("{}{digits}", ComparisonId::PREFIX);
    text.parse().expect("base 62 digits are an id")
}

/// A new id for an upload.
pub fn upload_id() -> UploadId {
    id(UploadId::PREFIX)
}

/// A new id for a bench.
pub fn bench_id() -> BenchId {
    id(BenchId::PREFIX)
}

/// A new id for a job.
pub fn job_id() -> JobId {
    id(JobId::PREFIX)
}

/// A new id for a row of a bench.
pub fn bench_row_id() -> BenchRowId {
    id(BenchRowId::PREFIX)
}

/// A new id for a database.
pub fn database_id() -> String {
    by_chance("db_")
}

/// A new id for a request that came without one.
pub fn request_id() -> String {
    by_chance("req_")
}

/// A new id for one start of a server.
pub fn opening_id() -> String {
    by_chance("open_")
}

/// A new number for a form.
pub fn form_number() -> String {
    by_chance("form_")
}

/// A new id for a session. It is a name, not a secret.
pub fn session_id() -> SessionId {
    id(SessionId::PREFIX)
}

/// A new id for a saved view.
pub fn view_id() -> ViewId {
    id(ViewId::PREFIX)
}

/// A new id for a training that reports.
pub fn live_id() -> LiveId {
    id(LiveId::PREFIX)
}

/// A new id for a person.
pub fn person_id() -> PersonId {
    id(PersonId::PREFIX)
}

/// A new id for a token. It is a name, not a secret.
pub fn token_id() -> TokenId {
    id(TokenId::PREFIX)
}

/// A new secret of 256 random bits, hexadecimal: a session's, or a token.
pub fn secret() -> String {
    format!("{:032x}{:032x}", random(), random())
}

fn id<I: FromStr>(prefix: &str) -> I {
    let Ok(id) = by_chance(prefix).parse() else {
        unreachable!("base 62 digits are an id");
    };
    id
}

fn by_chance(prefix: &str) -> String {
    format!("{prefix}{}", base62(random(), DIGITS))
}

/// A new short id for a link.
pub fn share_id() -> ShareId {
    let text = format!("{}{}", ShareId::PREFIX, base62(random(), SHARE_DIGITS));
    text.parse().expect("base 62 digits are an id")
}

/// A new key for the stand-ins of a link.
pub fn names_key() -> Key {
    Key::new(random().to_be_bytes())
}

/// A new secret for a link: 128 random bits.
pub fn share_token() -> String {
    base62(random(), TOKEN_DIGITS)
}

fn random() -> u128 {
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("the operating system has random bytes");
    u128::from_be_bytes(random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_have_equal_ids_and_others_do_not() {
        let id = |bytes: &[u8]| run_id(&blake3::hash(bytes));
        assert_eq!(id(b"a snapshot"), id(b"a snapshot"));
        assert_ne!(id(b"a snapshot"), id(b"another"));
        assert_eq!(id(b"").as_str(), "run_7DJu1SYFpHHXAclY");
    }

    #[test]
    fn uploads_never_share_an_id() {
        assert_ne!(upload_id(), upload_id());
    }

    #[test]
    fn a_secret_holds_all_its_bits() {
        assert_ne!(share_token(), share_token());
        assert_eq!(share_token().len(), TOKEN_DIGITS);
        // This shows that the largest number fits into these digits.
        assert!(62f64.powi(TOKEN_DIGITS as i32) >= 2f64.powi(128));
        assert_ne!(
            base62(u128::MAX, TOKEN_DIGITS),
            base62(u128::MAX >> 1, TOKEN_DIGITS)
        );
    }
}
