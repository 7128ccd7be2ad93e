//go:build !unix

package allowance_test

const fullEnv = "ALLOWANCE_TEST_FULL"

func spendOnFullDisk(string) { panic("files have no limit of size here") }
