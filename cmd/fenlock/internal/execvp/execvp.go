//go:build linux || darwin || freebsd

// Package execvp starts a command by the rules of execvp(3), as flock(1), env(1) and nohup(1) do.
// It runs what a shell, a crontab or a unit runs by these. It needs little of the standard library,
// so that package watchdog can begin early.
package execvp

import "syscall"

const (
	// DefaultPath is where a command is looked for if PATH is not set, by glibc's confstr(_CS_PATH).
	DefaultPath = "/bin:/usr/bin"
	// shell runs a script without a first line that names its program.
	shell = "/bin/sh"
)

// Path returns the value of PATH in an environment, and DefaultPath if it has none.
func Path(environment []string) string {
	const name = "PATH="
	for _, entry := range environment {
		if len(entry) >= len(name) && entry[:len(name)] == name {
			return entry[len(name):]
		}
	}
	return DefaultPath
}

// Files returns the files that a command may be, in the order in which they are tried. That is
// itself if it has a slash, else the file of its name in each folder of a path. A folder without a
// name is the working folder, as "." so that a script's name is no option of its shell's.
func Files(command, path string) (files []string) {
	if command == "" {
		return nil
	}
	for i := range len(command) {
		if command[i] == '/' {
			return []string{command}
		}
	}
	begin := 0
	for i := range len(path) + 1 {
		if i < len(path) && path[i] != ':' {
			continue
		}
		folder := path[begin:i]
		if begin = i + 1; folder == "" {
			folder = "."
		}
		files = append(files, folder+"/"+command)
	}
	return files
}

// ForkExec starts a command, which is looked for in its own environment, and returns its process
// id. The error is a syscall.Errno. It is ENOENT if there is no such command, and EACCES if there
// are only files that cannot be executed. It is ENOEXEC if it is a program of another kind of
// machine.
func ForkExec(args []string, attr *syscall.ProcAttr) (pid int, err error) {
	err = syscall.ENOENT
	files := Files(args[0], Path(attr.Env))
	for _, file := range files {
		var there syscall.Stat_t
		if len(files) > 1 && syscall.Stat(file, &there) == syscall.ENOENT {
			continue // without a process that finds the same
		}
		pid, failed := forkExec(file, args, attr)
		switch failed {
		case nil:
			return pid, nil
		case syscall.EACCES: // which is told if no other folder has it
			err = failed
		case syscall.ENOENT, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ESTALE, syscall.ENODEV, syscall.ETIMEDOUT:
		default:
			return 0, failed
		}
	}
	return 0, err
}

// forkExec starts a file, by the shell if it is a script that does not name its program.
func forkExec(file string, args []string, attr *syscall.ProcAttr) (pid int, err error) {
	pid, err = syscall.ForkExec(file, args, attr)
	if err != syscall.ENOEXEC || isBinary(file) {
		return pid, err
	}
	return syscall.ForkExec(shell, append([]string{shell, file}, args[1:]...), attr)
}

// isBinary reports whether the first line of a file is no text. execvp has the shell run that, too;
// shells do not, as a program of another kind of machine is no script.
func isBinary(file string) bool {
	fd, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	begin := make([]byte, 128)
	n, _ := syscall.Read(fd, begin)
	for i := range max(n, 0) {
		switch begin[i] {
		case 0:
			return true
		case '\n':
			return false
		}
	}
	return false
}
