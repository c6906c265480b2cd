//! Refuses to work in a data folder as a user to whom it does not belong. The files that such a
//! command makes would be out of the server's reach: its next write or backup would fail.

use super::CliError;
use crate::data_folder::DATABASE;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Refuses if the database in a folder belongs to another user than the one who runs this. A folder
/// without a database belongs to whoever fills it.
///
/// # Errors
/// Which user it is that should run the command.
pub fn check(folder: &Path) -> Result<(), CliError> {
    check_as(folder, rustix::process::geteuid().as_raw())
}

fn check_as(folder: &Path, me: u32) -> Result<(), CliError> {
    let database = folder.join(DATABASE);
    match database.metadata().map(|file| file.uid()) {
        Ok(owner) if owner != me => Err(CliError::Usage(format!(
            "{} belongs to user {owner}, and this command runs as user {me}: the files that it \
             makes would be out of the server's reach. Run it as user {owner}, for example with \
             `runuser -u NAME --` in front (`id -nu {owner}` is the name)",
            database.display()
        ))),
        // If it cannot be looked at, opening it gives the reason.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_of_the_database_works_in_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let check = |me, refused: bool| {
            assert_eq!(check_as(folder.path(), me).is_err(), refused, "{me}");
        };
        let owner = folder.path().metadata().unwrap().uid();
        check(owner + 1, false);
        std::fs::write(folder.path().join(DATABASE), "").unwrap();
        check(owner, false);
        check(owner + 1, true);
        let words = check_as(folder.path(), owner + 1).unwrap_err().to_string();
        assert!(words.contains(&format!("as user {owner},")), "{words}");
    }
}
