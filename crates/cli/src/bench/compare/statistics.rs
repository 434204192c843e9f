//! How far predictions are off.

use super::Pair;

/// Median, 90th percentile and largest of the sizes of errors, in percent.
pub fn errors<'a>(pairs: impl Iterator<Item = &'a Pair>) -> Option<[f64; 3]> {
    let mut sizes: Vec<f64> = pairs.map(|pair| 100.0 * pair.error().abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let last = sizes.len().checked_sub(1)?;
    // The least size that 90 % of the rows do not exceed.
    let ninth = (0.9 * sizes.len() as f64).ceil() as usize;
    Some([sizes[last / 2], sizes[ninth.clamp(1, last + 1) - 1], sizes[last]])
}

/// A line for all rows, for those that were fitted and those that were not, and for each suite.
pub fn table(pairs: &[Pair]) -> String {
    let mut text = "| rows | number | median error | 90th percentile | largest |\n".to_string();
    text += "|---|---|---|---|---|\n";
    let mut line = |name: &str, wanted: &dyn Fn(&Pair) -> bool| {
        let of = || pairs.iter().filter(|pair| wanted(pair));
        if let Some([median, ninth, largest]) = errors(of()) {
            let number = of().count();
            text +=
                &format!("| {name} | {number} | {median:.1} % | {ninth:.1} % | {largest:.1} % |\n");
        }
    };
    line("not fitted", &|pair| !pair.fitted);
    line("fitted", &|pair| pair.fitted);
    let mut suites: Vec<&String> = Vec::new();
    for pair in pairs {
        if !suites.contains(&&pair.suite) {
            suites.push(&pair.suite);
        }
    }
    for suite in suites {
        line(&format!("{suite}, not fitted"), &|pair| pair.suite == *suite && !pair.fitted);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(predicted_us: f64) -> Pair {
        Pair {
            suite: "dense".into(),
            name: String::new(),
            fitted: false,
            measured_us: 100.0,
            predicted_us,
            bound: String::new(),
            tensor: 0.0,
            clock_ghz: 0.0,
            shared: 0.0,
        }
    }

    #[test]
    fn percentiles_count_rows() {
        let pairs: Vec<Pair> = (1..=10).map(|i| pair(100.0 + f64::from(i))).collect();
        let [median, ninth, largest] = errors(pairs.iter()).expect("rows");
        assert_eq!([median, ninth, largest].map(f64::round), [5.0, 9.0, 10.0]);
        assert!(table(&pairs).contains("| not fitted | 10 | 5.0 % | 9.0 % | 10.0 % |"));
    }
}
