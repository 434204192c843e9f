use clap::{Arg, ArgAction, ArgMatches, Command};
use std::fmt;

/// `--arg`, `--buffer` and `--tensor-map` in the order they were given: kernel parameters are
/// positional.
pub struct Parameters(Vec<(&'static str, String)>);

/// Option, its name in a `run:` line, value name, help.
const OPTIONS: [(&str, &str, &str, &str); 3] = [
    (
        "arg",
        "--arg",
        "NAME:TYPE[DIMS]=INIT",
        "The next parameter: a buffer (poison is an output; zero, iota, random, ints an input, or both with +rw behind) or a number",
    ),
    ("buffer", "--buffer", "NAME:TYPE[DIMS]=INIT", "A buffer that only tensor maps refer to"),
    (
        "tensor-map",
        "--map",
        "NAME=BUFFER;dims=…;box=…",
        "The next parameter: a tensor map; also strides, steps, swizzle, fill, type, offset, and lower and upper of im2col maps",
    ),
];

impl Parameters {
    /// Whether none were given.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As words of a command line.
    pub fn words(&self) -> impl Iterator<Item = String> {
        let long = |line: &str| {
            let found = OPTIONS.iter().find(|(_, in_line, ..)| *in_line == line);
            format!("--{}", found.map_or(line, |(name, ..)| name))
        };
        self.0.iter().flat_map(move |(option, value)| [long(option), value.clone()])
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(option, value)| write!(f, " {option} {value}"))
    }
}

impl clap::FromArgMatches for Parameters {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for (name, option, ..) in OPTIONS {
            let values = matches.get_many::<String>(name).into_iter().flatten();
            let places = matches.indices_of(name).into_iter().flatten();
            given.extend(places.zip(values).map(|(place, value)| (place, option, value.clone())));
        }
        given.sort_by_key(|(place, ..)| *place);
        Ok(Parameters(given.into_iter().map(|(_, option, value)| (option, value)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Parameters {
    fn augment_args(command: Command) -> Command {
        OPTIONS.iter().fold(command, |command, (name, _, value, help)| {
            let arg = Arg::new(*name).long(*name).value_name(*value).help(*help);
            command.arg(arg.action(ArgAction::Append))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
