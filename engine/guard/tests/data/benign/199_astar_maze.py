import heapq
import random
import sys


def generate(width, height, seed=None):
    rng = random.Random(seed)
    grid = [["#"] * (2 * width + 1) for _ in range(2 * height + 1)]
    stack = [(0, 0)]
    grid[1][1] = " "
    while stack:
        x, y = stack[-1]
        options = []
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            nx, ny = x + dx, y + dy
            if 0 <= nx < width and 0 <= ny < height and grid[2 * ny + 1][2 * nx + 1] == "#":
                options.append((nx, ny, dx, dy))
        if not options:
            stack.pop()
            continue
        nx, ny, dx, dy = rng.choice(options)
        grid[2 * y + 1 + dy][2 * x + 1 + dx] = " "
        grid[2 * ny + 1][2 * nx + 1] = " "
        stack.append((nx, ny))
    return grid


def astar(grid, start, goal):
    def h(p):
        return abs(p[0] - goal[0]) + abs(p[1] - goal[1])

    frontier = [(h(start), 0, start)]
    came = {start: None}
    cost = {start: 0}
    while frontier:
        _, g, cur = heapq.heappop(frontier)
        if cur == goal:
            path = []
            while cur:
                path.append(cur)
                cur = came[cur]
            return path[::-1]
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            nxt = (cur[0] + dx, cur[1] + dy)
            if grid[nxt[1]][nxt[0]] == "#":
                continue
            if g + 1 < cost.get(nxt, 1e9):
                cost[nxt] = g + 1
                came[nxt] = cur
                heapq.heappush(frontier, (g + 1 + h(nxt), g + 1, nxt))
    return None


if __name__ == "__main__":
    w, h = (int(v) for v in (sys.argv[1:3] or (25, 10)))
    maze = generate(w, h)
    path = astar(maze, (1, 1), (2 * w - 1, 2 * h - 1))
    for x, y in path:
        maze[y][x] = "."
    print("\n".join("".join(row) for row in maze))
    print("path length", len(path))
