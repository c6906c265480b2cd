//! What surrounds the server: its data folder (`data_folder`, `data_lock`, `private`), the disk and
//! the `clock`; how to recognise compressed files (`compression`); texts for terminals (`plain`,
//! `table`, `causes`).

pub mod causes;
pub mod clock;
pub mod compression;
pub mod data_folder;
pub mod data_lock;
pub mod disk;
pub mod plain;
pub mod private;
pub mod table;
