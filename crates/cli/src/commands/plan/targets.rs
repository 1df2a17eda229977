//! What `plan` is given for all tenants or for one: `[NAME=]…`. The value of one tenant counts before
//! that of all, in whatever order they are given.

use tidekv_plan::{LatencyOverrides, PercentileTarget, Tenant};

use crate::failure::{Failure, Result};
use crate::quantity::parse_micros;
use crate::terms::parse_latencies;

/// `NAME=REST`.
pub(super) fn named(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(name, _)| !name.is_empty())
}

/// A value of all tenants, or of the one with that name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Given<T> {
    name: Option<String>,
    value: T,
}

impl<T> Given<T> {
    /// Whether it is for this tenant.
    fn is_for(&self, tenant: &str) -> bool {
        self.name.as_ref().is_none_or(|name| name == tenant)
    }
}

/// The values of an option, those of all tenants first. `is_same` is whether two values exclude each
/// other if both are of the same tenant.
fn read<T>(
    option: &str,
    texts: &[String],
    parse: impl Fn(&str) -> Result<T>,
    is_same: impl Fn(&T, &T) -> bool,
) -> Result<Vec<Given<T>>> {
    let mut all = Vec::<Given<T>>::new();
    for text in texts {
        let (name, rest) =
            named(text).map_or((None, text.as_str()), |(name, rest)| (Some(name), rest));
        let given = Given { name: name.map(str::to_owned), value: parse(rest)? };
        if all.iter().any(|it| it.name == given.name && is_same(&it.value, &given.value)) {
            let of = name.map_or("all tenants".to_owned(), |name| format!("tenant {name:?}"));
            return Err(Failure::usage(format!("{option}: {text:?} is the second for {of}")));
        }
        all.push(given);
    }
    all.sort_by_key(|given| given.name.is_some());
    Ok(all)
}

/// Fails for a value of a tenant that does not exist.
pub(super) fn check_names<T>(option: &str, all: &[Given<T>], names: &[&str]) -> Result<()> {
    let unknown = all.iter().filter_map(|given| given.name.as_deref());
    match unknown.into_iter().find(|name| !names.contains(name)) {
        Some(name) => {
            let known = names.join(", ");
            let text = format!("{option}: tenant {name:?} has no curve; the tenants are {known}");
            Err(Failure::usage(text))
        }
        None => Ok(()),
    }
}

/// The latencies of `--latencies`.
pub(super) fn latencies(texts: &[String]) -> Result<Vec<Given<LatencyOverrides>>> {
    read("--latencies", texts, parse_latencies, |_, _| true)
}

/// The latencies of this tenant: its own, or else those of all.
pub(super) fn latencies_of(all: &[Given<LatencyOverrides>], tenant: &str) -> LatencyOverrides {
    let of_it = all.iter().filter(|given| given.is_for(tenant)).map(|given| given.value);
    of_it.fold(LatencyOverrides::default(), |all, own| LatencyOverrides {
        memory_us: own.memory_us.or(all.memory_us),
        flash_us: own.flash_us.or(all.flash_us),
        backend_us: own.backend_us.or(all.backend_us),
    })
}

/// A latency target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Target {
    /// Of the mean, in microseconds.
    Mean(f64),
    /// Of a percentile.
    Percentile(PercentileTarget),
}

impl Target {
    /// Whether it is for the mean or the percentile of the other one.
    fn is_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Mean(_), Self::Mean(_)) => true,
            (Self::Percentile(one), Self::Percentile(other)) => one.percent == other.percent,
            _ => false,
        }
    }

    /// Parses `TIME` or `pNN:TIME`.
    fn parse(text: &str) -> Result<Self> {
        let Some((percent, time)) = text.strip_prefix('p').and_then(|it| it.split_once(':')) else {
            return parse_micros(text).map(Self::Mean).map_err(Failure::usage);
        };
        let is_plain = percent.chars().all(|c| c.is_ascii_digit() || c == '.');
        let number = percent.parse::<f64>().ok().filter(|_| is_plain);
        let percent = number.filter(|number| *number > 0.0 && *number < 100.0).ok_or_else(|| {
            Failure::usage(format!(
                "--sla: {text:?} needs a percentile above 0 and below 100, such as p99:1ms or p99.9:1ms"
            ))
        })?;
        let within_us = parse_micros(time).map_err(Failure::usage)?;
        Ok(Self::Percentile(PercentileTarget { percent, within_us }))
    }
}

/// The targets of `--sla`.
pub(super) fn targets(texts: &[String]) -> Result<Vec<Given<Target>>> {
    read("--sla", texts, Target::parse, Target::is_of)
}

/// Gives each tenant its targets. A target of its own replaces that of all for the same percentile;
/// others add up.
pub(super) fn aim(tenants: &mut [Tenant], all: &[Given<Target>]) {
    for tenant in tenants {
        for given in all.iter().filter(|given| given.is_for(&tenant.name)) {
            match given.value {
                Target::Mean(us) => tenant.sla_us = Some(us),
                Target::Percentile(target) => {
                    tenant.percentiles.retain(|it| it.percent != target.percent);
                    tenant.percentiles.push(target);
                }
            }
        }
        tenant.percentiles.sort_by(|one, other| one.percent.total_cmp(&other.percent));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidekv_plan::Curve;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn own_targets_replace_those_of_all_in_any_order() {
        let of = |slas: &[&str]| {
            let nothing = || Curve::new([], 1.0).unwrap();
            let mut tenants = ["web", "ads"].map(|name| Tenant::new(name, nothing()));
            aim(&mut tenants, &targets(&texts(slas)).unwrap());
            tenants.map(|tenant| {
                let percentiles = tenant.percentiles.iter().map(|it| (it.percent, it.within_us));
                (tenant.sla_us, percentiles.collect::<Vec<_>>())
            })
        };
        let all = ["300us", "web=100us", "p99.9:2ms", "web=p99.9:1ms", "web=p50:20us"];
        let mut reversed = all;
        reversed.reverse();
        for slas in [all, reversed] {
            let [web, ads] = of(&slas);
            assert_eq!(web, (Some(100.0), vec![(50.0, 20.0), (99.9, 1_000.0)]));
            assert_eq!(ads, (Some(300.0), vec![(99.9, 2_000.0)]));
        }
        assert_eq!(of(&["web=p5:1ms"])[1], (None, vec![]));
    }

    #[test]
    fn own_latencies_count_before_those_of_all() {
        let all = latencies(&texts(&["web=,50us,", "10us,100us,1ms"])).unwrap();
        let web = latencies_of(&all, "web");
        assert_eq!(
            (web.memory_us, web.flash_us, web.backend_us),
            (Some(10.0), Some(50.0), Some(1_000.0))
        );
        assert_eq!(latencies_of(&all, "ads").flash_us, Some(100.0));
        assert!(check_names("--latencies", &all, &["web"]).is_ok());
        let failure = check_names("--latencies", &all, &["ads", "shop"]).unwrap_err();
        assert!(failure.message.contains("tenant \"web\" has no curve; the tenants are ads, shop"));
    }

    #[test]
    fn repeated_and_invalid_values_are_refused() {
        for (slas, what) in [
            (&["web=1ms", "web=2ms"][..], "\"web=2ms\" is the second for tenant \"web\""),
            (&["1ms", "p99:1ms", "2ms"], "\"2ms\" is the second for all tenants"),
            (&["p99:1ms", "p99.0:2ms"], "\"p99.0:2ms\" is the second for all tenants"),
            (&["p0:1ms"], "above 0 and below 100"),
            (&["p100:1ms"], "above 0 and below 100"),
            (&["p1e1:1ms"], "above 0 and below 100"),
            (&["pfast:1ms"], "above 0 and below 100"),
            (&["p99:fast"], "700us"),
            (&["p99"], "700us"),
        ] {
            let failure = targets(&texts(slas)).unwrap_err();
            assert!(failure.message.contains(what), "{slas:?}: {}", failure.message);
        }
        for (times, what) in [
            (&["1us,2us,3us", "1us,,"][..], "second for all tenants"),
            (&["web=1us,2us,3us", "web=1us,,"], "second for tenant \"web\""),
            (&["web=1us,2us"], "three times"),
            (&["=1us,2us,3us"], "is not a time"),
        ] {
            let failure = latencies(&texts(times)).unwrap_err();
            assert!(failure.message.contains(what), "{times:?}: {}", failure.message);
        }
    }
}
