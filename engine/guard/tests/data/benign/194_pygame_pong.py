import random
import sys

import pygame

WIDTH, HEIGHT = 800, 500
PADDLE_W, PADDLE_H, BALL = 12, 80, 14
WHITE, BLACK = (240, 240, 240), (15, 15, 20)


class Ball:
    def __init__(self):
        self.rect = pygame.Rect(0, 0, BALL, BALL)
        self.reset(random.choice((-1, 1)))

    def reset(self, direction):
        self.rect.center = (WIDTH // 2, HEIGHT // 2)
        self.vx = 5 * direction
        self.vy = random.choice((-3, -2, 2, 3))

    def move(self, left, right):
        self.rect.x += self.vx
        self.rect.y += self.vy
        if self.rect.top <= 0 or self.rect.bottom >= HEIGHT:
            self.vy *= -1
        for paddle in (left, right):
            if self.rect.colliderect(paddle):
                self.vx = -self.vx * 1.05
                self.vy += (self.rect.centery - paddle.centery) * 0.06
                self.rect.left = paddle.right if paddle is left else self.rect.left
                if paddle is right:
                    self.rect.right = paddle.left


def main():
    pygame.init()
    screen = pygame.display.set_mode((WIDTH, HEIGHT))
    pygame.display.set_caption("Pong")
    font = pygame.font.Font(None, 60)
    clock = pygame.time.Clock()
    left = pygame.Rect(20, HEIGHT // 2 - PADDLE_H // 2, PADDLE_W, PADDLE_H)
    right = pygame.Rect(WIDTH - 20 - PADDLE_W, HEIGHT // 2 - PADDLE_H // 2, PADDLE_W, PADDLE_H)
    ball = Ball()
    score = [0, 0]
    while True:
        for event in pygame.event.get():
            if event.type == pygame.QUIT:
                pygame.quit()
                sys.exit()
        keys = pygame.key.get_pressed()
        left.y += 7 * (keys[pygame.K_s] - keys[pygame.K_w])
        right.y += 7 * (keys[pygame.K_DOWN] - keys[pygame.K_UP])
        left.clamp_ip(screen.get_rect())
        right.clamp_ip(screen.get_rect())
        ball.move(left, right)
        if ball.rect.right < 0:
            score[1] += 1
            ball.reset(1)
        elif ball.rect.left > WIDTH:
            score[0] += 1
            ball.reset(-1)
        screen.fill(BLACK)
        pygame.draw.aaline(screen, WHITE, (WIDTH // 2, 0), (WIDTH // 2, HEIGHT))
        for r in (left, right, ball.rect):
            pygame.draw.rect(screen, WHITE, r)
        text = font.render(f"{score[0]}   {score[1]}", True, WHITE)
        screen.blit(text, text.get_rect(center=(WIDTH // 2, 40)))
        pygame.display.flip()
        clock.tick(60)


if __name__ == "__main__":
    main()
