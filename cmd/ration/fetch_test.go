package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

// fetchMain is a program for scripts, which gets what follows /to/ through its
// gateway: fetch HOST/PATH [NAME VALUE]…. It fails as curl --fail does.
func fetchMain() {
	req, err := http.NewRequest(http.MethodGet, os.Getenv("RATION_URL")+"/to/"+os.Args[1], nil)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("RATION_TOKEN"))
	for i := 2; i+1 < len(os.Args); i += 2 {
		req.Header.Set(os.Args[i], os.Args[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(7)
	}
	defer resp.Body.Close()
	fmt.Fprintln(os.Stderr, "fetch:", resp.Status)
	_, _ = io.Copy(os.Stdout, resp.Body)
	if resp.StatusCode >= http.StatusBadRequest {
		os.Exit(22)
	}
}
