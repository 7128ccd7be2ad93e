//go:build !unix

package journal_test

const fullEnv = "JOURNAL_TEST_FULL"

func spendOnFullDisk(string) { panic("files have no limit of size here") }
