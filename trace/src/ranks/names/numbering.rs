//! How ranks are numbered, in a sentence.

use super::Rank;

/// How ranks are numbered whose files do not say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ordered {
    /// Role by role: each with the numbers of its first and last rank.
    ByRole(Vec<(String, [Rank; 2])>),
    /// By several numbers; the words before them, the outermost first.
    ByAxes(Vec<String>),
    /// By the names of hosts.
    ByHost,
    /// As the names are sorted.
    ByName,
    /// By the one number in which the names differ; the word before it.
    ByNumber(String),
}

impl Ordered {
    /// A sentence, with what to do where the program numbers them otherwise.
    pub fn told(&self) -> String {
        let how = match self {
            Ordered::ByRole(roles) => {
                let role = |(role, [first, last]): &(String, [Rank; 2])| match first == last {
                    true => format!("{role} {first}"),
                    false => format!("{role} {first} to {last}"),
                };
                let roles: Vec<String> = roles.iter().map(role).collect();
                format!("the ranks are numbered role by role ({})", roles.join(", "))
            }
            Ordered::ByAxes(axes) => {
                let axes = axes.join(", ");
                format!("the ranks are numbered by {axes}, the outermost first")
            }
            Ordered::ByHost => {
                "the ranks are numbered as the names of their hosts are sorted".to_owned()
            }
            Ordered::ByName => "the ranks are numbered as their names are sorted".to_owned(),
            Ordered::ByNumber(word) if word.is_empty() => {
                "the number in its name is taken for it".to_owned()
            }
            Ordered::ByNumber(word) => format!("the number behind `{word}` is taken for it"),
        };
        format!(
            "No file names its rank, so {how}. If the program numbers them otherwise, name each \
             file with its rank: 0=FILE 1=FILE."
        )
    }
}
