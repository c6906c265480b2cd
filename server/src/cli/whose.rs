//! Refuses to work in a data folder as a user to whom it does not belong. The files that such a
//! command makes would be out of the server's reach: its next write or backup would fail.

use super::CliError;
use crate::system::data_folder::{self, DATABASE};
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
        Ok(owner) if owner != me => Err(refusal(&database, owner, me)),
        // If it cannot be looked at, opening it gives the reason.
        _ => Ok(()),
    }
}

/// Whether a folder has a database.
///
/// # Errors
/// When the system does not let this user look: another user's folder is not an empty one.
pub fn has_database(folder: &Path) -> Result<bool, CliError> {
    data_folder::has_database(folder).map_err(|error| CliError::BadInput {
        path: folder.to_owned(),
        why: match folder.metadata().map(|folder| folder.uid()) {
            Ok(owner) => format!("{error}: run the command as user {owner}, whose folder it is"),
            Err(_) => error.to_string(),
        },
    })
}

/// Refuses if root is about to fill a folder that was made for another user. Nobody else can by
/// mistake: a user who may write into the folder of another one was given it, as in a volume of a
/// container.
///
/// # Errors
/// Which user it is that should run the command.
pub fn check_before_filling(folder: &Path) -> Result<(), CliError> {
    check_before_filling_as(folder, rustix::process::geteuid().as_raw())
}

fn check_before_filling_as(folder: &Path, me: u32) -> Result<(), CliError> {
    match folder.metadata().map(|folder| folder.uid()) {
        Ok(owner) if me == ROOT && owner != ROOT => Err(refusal(folder, owner, me)),
        _ => Ok(()),
    }
}

const ROOT: u32 = 0;

fn refusal(place: &Path, owner: u32, me: u32) -> CliError {
    CliError::Usage(format!(
        "{} belongs to user {owner}, and this command runs as user {me}: the files that it makes \
         would be out of the server's reach. Run it as user {owner}, for example with \
         `runuser -u NAME --` in front (`id -nu {owner}` is the name)",
        place.display()
    ))
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

    #[test]
    fn root_does_not_fill_the_folder_of_another_user() {
        let folder = tempfile::tempdir().unwrap();
        let nobody = 65_534;
        let given_away = std::os::unix::fs::chown(folder.path(), Some(nobody), None);
        let owner = folder.path().metadata().unwrap().uid();
        assert_eq!(given_away.is_ok(), owner == nobody);
        let check = |path: &Path, me, refused: bool| {
            assert_eq!(check_before_filling_as(path, me).is_err(), refused, "{me}");
        };
        check(folder.path(), ROOT, owner != ROOT);
        check(folder.path(), owner, false);
        check(folder.path(), owner + 1, false);
        check(&folder.path().join("missing"), ROOT, false);
    }
}
