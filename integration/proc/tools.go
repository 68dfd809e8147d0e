package proc

import (
	"fmt"
	"os"
	"path/filepath"
)

// Tools returns the folder of programs that an environment variable names. The error is none if
// the variable is not set, and another one if a program is missing.
func Tools(variable string, none error, programs ...string) (string, error) {
	named := os.Getenv(variable)
	if named == "" {
		return "", none
	}
	dir, err := filepath.Abs(named)
	if err != nil {
		return "", fmt.Errorf("find the folder in %s: %w", variable, err)
	}
	for _, name := range programs {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("find a program in the folder of %s: %w", variable, err)
		}
	}
	return dir, nil
}
