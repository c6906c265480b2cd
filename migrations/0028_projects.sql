-- Projects: each has a folder, and a database like this one, of its own (`projects/NAME` in the data
-- folder). Here is only who may enter them and how they are kept. The first project, `main`, is in
-- this database; its row is made when a setting of it is changed.
CREATE TABLE projects (
    name       TEXT PRIMARY KEY,           -- small letters, digits and dashes
    created_ms INTEGER NOT NULL,
    closed_ms  INTEGER,                    -- set: nobody enters it
    everybody  TEXT,                       -- the role of everybody but guests; NULL: none
    quota      INTEGER,                    -- most bytes on disk
    keep       TEXT                        -- JSON of api::projects::Keep; NULL: all runs stay
) STRICT;

-- What people may do in a project, beyond what everybody may.
CREATE TABLE project_members (
    project TEXT NOT NULL REFERENCES projects (name) ON DELETE CASCADE,
    person  TEXT NOT NULL REFERENCES people (id),
    role    TEXT NOT NULL,                 -- admin, member or reader
    PRIMARY KEY (project, person)
) STRICT, WITHOUT ROWID;

-- The only project that a token opens; NULL: those of its person.
ALTER TABLE tokens ADD COLUMN project TEXT;

-- In which project something was done; NULL: on the server, or it had only one project.
ALTER TABLE audit ADD COLUMN project TEXT;
