import os
import random
import re

import discord
from discord.ext import commands

intents = discord.Intents.default()
intents.message_content = True
bot = commands.Bot(command_prefix="!", intents=intents)


@bot.event
async def on_ready():
    print(f"logged in as {bot.user}")


@bot.command()
async def roll(ctx, dice: str = "1d6"):
    """Roll dice, for example !roll 2d20+3"""
    m = re.fullmatch(r"(\d{1,2})d(\d{1,3})([+-]\d+)?", dice)
    if not m:
        return await ctx.send("Format: NdM+K")
    rolls = [random.randint(1, int(m[2])) for _ in range(int(m[1]))]
    bonus = int(m[3] or 0)
    await ctx.send(f"{ctx.author.mention} rolled {rolls} {bonus:+d} = **{sum(rolls) + bonus}**")


@bot.command()
async def poll(ctx, question: str, *options: str):
    """!poll "Lunch?" pizza sushi salad"""
    if not 2 <= len(options) <= 9:
        return await ctx.send("Give me 2 to 9 options.")
    lines = [f"{i}\N{COMBINING ENCLOSING KEYCAP} {o}" for i, o in enumerate(options, 1)]
    msg = await ctx.send(embed=discord.Embed(title=question, description="\n".join(lines)))
    for i in range(1, len(options) + 1):
        await msg.add_reaction(f"{i}\N{COMBINING ENCLOSING KEYCAP}")


@bot.command()
@commands.has_permissions(manage_messages=True)
async def clear(ctx, amount: int = 10):
    deleted = await ctx.channel.purge(limit=min(amount, 100) + 1)
    await ctx.send(f"Deleted {len(deleted) - 1} messages.", delete_after=5)


@bot.event
async def on_command_error(ctx, error):
    if isinstance(error, commands.MissingPermissions):
        await ctx.send("You may not do that.")
    elif isinstance(error, commands.UserInputError):
        await ctx.send(f"Wrong input: {error}")
    else:
        raise error


bot.run(os.environ["DISCORD_TOKEN"])
