//! Asks for videos until the budget is spent: prints how many answers came.
//! With a crate such as reqwest the address, the headers and the 429 are the same.
use std::{env, io::{Read, Write}, net::TcpStream, process::exit};

/// Sends a GET to an https address through the gateway, and returns the answer with its headers.
fn guarded(url: &str) -> std::io::Result<String> {
    let gateway = env::var("RATION_URL").unwrap_or("http://127.0.0.1:8377".into());
    let token = env::var("RATION_TOKEN").map(|t| format!("Ration-Token: {t}\r\n")).unwrap_or_default();
    let (host, path) = (gateway.trim_start_matches("http://"), url.trim_start_matches("https://"));
    let mut connection = TcpStream::connect(host)?;
    write!(connection, "GET /to/{path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: rust\r\nRation-Job: rust\r\n{token}\r\n")?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn main() -> std::io::Result<()> {
    for answers in 0.. {
        let answer = guarded("https://www.googleapis.com/youtube/v3/videos?part=id&chart=mostPopular&regionCode=IN")?;
        let status = answer.split(' ').nth(1);
        if status == Some("429") && answer.contains("\r\nRation-Refused-By: ") {
            println!("{answers}");
            eprintln!("{answer}"); // its body has retry_at, remaining, limit and shortfall
            exit(75); // go on later
        }
        assert_eq!(status, Some("200"), "{answer}");
    }
    Ok(())
}
